"""The colours of the reports, for a light and a dark page."""

# Light and dark value of each colour. Light values are distinct: they mark the colour in matplotlib's output.
# Experts: the muted scheme of Paul Tol ("Colour schemes", 2021), and his light scheme on the dark page.
PALETTE = {
    "ink": ("#1b2330", "#e8ebf0"),
    "muted": ("#5b6675", "#9ba7b6"),
    "grid": ("#e4e8ed", "#29313c"),
    "warmup": ("#f3eee1", "#2c2a22"),
    "model": ("#1f5fa8", "#74b4f7"),
    "band": ("#c6def6", "#234463"),
    "range": ("#a9b3bf", "#5d6a7b"),
    "last": ("#c4560a", "#f5a05a"),
    "average": ("#84489c", "#cb9aec"),
    "miss": ("#c8102e", "#ff7d8c"),
    "expert0": ("#88ccee", "#77aadd"),
    "expert1": ("#ddcc77", "#eedd88"),
    "expert2": ("#cc6677", "#ee8866"),
    "expert3": ("#117733", "#44bb99"),
    "expert4": ("#332288", "#b79bd9"),
    "expert5": ("#44aa99", "#99ddff"),
    "expert6": ("#882255", "#ffaabb"),
    "expert7": ("#999933", "#aaaa00"),
    "expert8": ("#aa4499", "#bbcc33"),
    "others": ("#d3d8de", "#4a5462"),
    # Dots, and fifths from the least to the greatest. Such small marks need a contrast of 3 to 1 with the page.
    "dot0": ("#0077bb", "#66b2ff"),
    "dot1": ("#cc3311", "#ff7d6b"),
    "dot2": ("#00876a", "#44d0ae"),
    "dot3": ("#aa3377", "#e07ab8"),
    "dot4": ("#8a6d00", "#e0b93c"),
    "dot5": ("#3b2a8c", "#a394f0"),
    "dot6": ("#6d4c41", "#c79a86"),
    "dot7": ("#d6006e", "#ff6fb5"),
    "dot8": ("#5f7a00", "#b5d033"),
    "dot9": ("#5b7083", "#a9bccb"),
    "fifth0": ("#7388b8", "#5f76b0"),
    "fifth1": ("#5474b8", "#7a98d8"),
    "fifth2": ("#4557a8", "#9ab8ee"),
    "fifth3": ("#453592", "#bdd4ff"),
    "fifth4": ("#3a1768", "#e4eeff"),
}
EXPERTS_SHOWN = sum(name.startswith("expert") for name in PALETTE)
DOTS = tuple(name for name in PALETTE if name.startswith("dot"))
FIFTHS = tuple(name for name in PALETTE if name.startswith("fifth"))
