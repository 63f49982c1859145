"""`python -m multimodal` is the command `multimodal`."""

import sys

from multimodal.cli import main

sys.exit(main())
