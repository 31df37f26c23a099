// What the project uses of libtorch: tensors, their functions and custom gradients. torch/torch.h takes a compiler
// twice as long, in every file.
#pragma once
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>
