"""Demos, each started by one command."""

if __name__ != "multimodal.demos":
    raise ImportError("import multimodal.demos, not demos: the folder is installed as part of the multimodal package")
