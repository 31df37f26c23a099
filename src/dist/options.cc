#include "dist/communicator.h"

namespace lshformer {

const OptionTable<MeetingOptions>& MeetingTable() {
  static const OptionTable<MeetingOptions> table = [] {
    OptionTable<MeetingOptions> made;
    made.group = "Several processes (torchrun, mpirun, srun)";
    made.options = {
        Integer("dist_port", &MeetingOptions::port, 0, 65535 - 15,
                "of several machines: the first of sixteen ports that rank 0 tries to be met at; 0: MASTER_PORT + 1")
            .KeepsResult(),
        Integer("dist_timeout", &MeetingOptions::timeout, 1, 1000000,
                "seconds after which a rank that did not arrive or is silent counts as lost")
            .KeepsResult()};
    return made;
  }();
  return table;
}

}  // namespace lshformer
