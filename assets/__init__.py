"""Data of the demo catalogue: pictures, facts, prices and the tour's words."""

if __name__ != "multimodal.assets":
    raise ImportError("import multimodal.assets, not assets: the folder is installed as part of the multimodal package")
