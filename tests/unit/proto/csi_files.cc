#include "tests/unit/proto/csi_files.h"

#include "csi/v1/csi.pb.h"

namespace quarry::proto_test {

// Each descriptor is taken from a message, which also makes the linker keep its library.
const std::vector<CsiFile>& CsiFiles() {
  static const std::vector<CsiFile> kFiles = {
      {"v1", "csi/v1/csi.proto", "csi/v1/csi.protoset", "csi_v1.table", 509,
       ::csi::v1::Volume::descriptor()->file()},
  };
  return kFiles;
}

}  // namespace quarry::proto_test
