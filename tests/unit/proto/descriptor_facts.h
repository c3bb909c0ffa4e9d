#pragma once

#include <google/protobuf/descriptor.h>

#include "tests/unit/proto/wire_facts.h"

namespace quarry::proto_test {

// Everything in a file that shows on the wire or in options, as facts.
Facts WireFacts(const google::protobuf::FileDescriptor& file);

// What the file's comments say: "Required", "Since x.y", "withdrawn in x.y". Only descriptors that were built
// from the .proto text carry comments; generated ones don't.
Notes CommentNotes(const google::protobuf::FileDescriptor& file);

}  // namespace quarry::proto_test
