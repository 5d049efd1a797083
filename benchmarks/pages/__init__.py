"""Tables and pictures of the documentation.

A module with a function `pages` renders text: it returns every page that it renews, from the committed results alone,
and a test holds the committed pages to it. The others draw pictures.
"""
