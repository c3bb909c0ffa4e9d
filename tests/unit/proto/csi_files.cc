#include "tests/unit/proto/csi_files.h"

#include "cosi/v1alpha1/cosi.pb.h"
#include "cosi/v1alpha2/cosi.pb.h"
#include "csi/v0/csi.pb.h"
#include "csi/v0_1/csi.pb.h"
#include "csi/v1/csi.pb.h"

namespace quarry::proto_test {

// Each descriptor is taken from a message, which also makes the linker keep its library.
const std::vector<CsiFile>& CsiFiles() {
  static const std::vector<CsiFile> kFiles = {
      {"v1", "csi/v1/csi.proto", "csi/v1/csi.protoset", "csi_v1.table", 509,
       ::csi::v1::Volume::descriptor()->file()},
      {"v0", "csi/v0/csi.proto", "csi/v0/csi.protoset", "csi_v0.table", 225,
       ::csi::v0::Volume::descriptor()->file()},
      {"v0_1", "csi/v0_1/csi.proto", "csi/v0_1/csi.protoset", "csi_v0_1.table", 161,
       ::csi::VolumeInfo::descriptor()->file()},
      {"cosi_v1alpha1", "cosi/v1alpha1/cosi.proto", "cosi/v1alpha1/cosi.protoset", "cosi_v1alpha1.table", 64,
       ::cosi::v1alpha1::Protocol::descriptor()->file()},
      {"cosi_v1alpha2", "cosi/v1alpha2/cosi.proto", "cosi/v1alpha2/cosi.protoset", "cosi_v1alpha2.table", 114,
       ::sigs::k8s::io::cosi::v1alpha2::CredentialInfo::descriptor()->file()},
  };
  return kFiles;
}

}  // namespace quarry::proto_test
