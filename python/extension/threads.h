// torch's threads for our loops.
#pragma once

namespace lshformer::extension {

// ParallelFor (base/parallel.h) runs on the pool of the process's torch, on as many threads as torch.get_num_threads()
// says. Once, before the first kernel.
void UseTorchThreads();

}  // namespace lshformer::extension
