"""Whether modules of torchvision, timm and transformers compile and agree with eager PyTorch."""
