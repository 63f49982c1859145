"""The drift report: one tour under several network conditions, their timelines side by side. No browser, no waiting.

python -m multimodal.demos.drift_report
"""

if __name__ != "multimodal.demos.drift_report":
    raise ImportError("import multimodal.demos.drift_report: the folder is installed as part of the multimodal package")
