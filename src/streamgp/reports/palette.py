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
}
EXPERTS_SHOWN = sum(name.startswith("expert") for name in PALETTE)
