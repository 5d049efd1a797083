"""Streamgp's estimators with the interfaces of other libraries; each module needs the library that it is for."""
