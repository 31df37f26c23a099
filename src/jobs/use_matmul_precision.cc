#include "jobs/use_matmul_precision.h"

#include <mutex>

#include "base/error.h"
#include "base/logging.h"

namespace lshformer {

void UseMatmulPrecision(MatmulPrecision precision) {
  SetMatmulPrecision(precision);
  if (ActiveMatmulPrecision() == precision) return;
  static std::once_flag said;
  std::call_once(said, [precision] {
    Warn("{} {}: is for processors with AMX, elsewhere it is highest", OptionName{"float32_matmul_precision"},
         Name(precision));
  });
}

}  // namespace lshformer
