"""Ways into the graph: ONNX files and PyTorch modules. A frontend op is one function."""
