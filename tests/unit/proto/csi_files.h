#pragma once

#include <google/protobuf/descriptor.h>

#include <ostream>
#include <string>
#include <vector>

namespace quarry::proto_test {

// One version of CSI or COSI: its generated descriptor and the table it must agree with.
struct CsiFile {
  std::string name;      // For test names.
  std::string path;      // Import path.
  std::string protoset;  // Descriptors with comments, below the directory of generated files.
  std::string table;     // Below tests/fixtures.
  std::size_t facts;     // How much the table says: a table that lost rows is not a table to test against.
  const google::protobuf::FileDescriptor* file;
};

inline void PrintTo(const CsiFile& file, std::ostream* out) {
  *out << file.path;
}

const std::vector<CsiFile>& CsiFiles();

}  // namespace quarry::proto_test
