// The generated descriptors and the wire tables must say the same, in both directions.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/unit/proto/csi_files.h"
#include "tests/unit/proto/descriptor_facts.h"
#include "tests/unit/proto/wire_table.h"

namespace quarry::proto_test {
namespace {

namespace pb = google::protobuf;
using testing::IsEmpty;

Facts Minus(const Facts& a, const Facts& b) {
  Facts rest;
  std::ranges::set_difference(a, b, std::inserter(rest, rest.end()));
  return rest;
}

class DescriptorTest : public testing::TestWithParam<CsiFile> {
 protected:
  const WireTable& Table() const { return table_; }
  const pb::FileDescriptor& File() const { return *GetParam().file; }

 private:
  WireTable table_ = ReadWireTable(std::string(QUARRY_FIXTURES) + "/" + GetParam().table);
};

TEST_P(DescriptorTest, TableIsUnderstoodToTheLastRow) {
  EXPECT_THAT(Table().errors, IsEmpty());
  EXPECT_EQ(Table().wire.size(), GetParam().facts);
}

TEST_P(DescriptorTest, HasItsOwnImportPath) {
  EXPECT_EQ(File().name(), GetParam().path);
}

TEST_P(DescriptorTest, HasAllThatTheTableHas) {
  EXPECT_THAT(Minus(Table().wire, WireFacts(File())), IsEmpty());
}

TEST_P(DescriptorTest, HasNothingThatTheTableLacks) {
  EXPECT_THAT(Minus(WireFacts(File()), Table().wire), IsEmpty());
}

// Validation is written from these comments, so they are checked like the numbers.
TEST_P(DescriptorTest, CommentsSayWhatIsRequiredAndSinceWhen) {
  std::ifstream protoset(std::string(QUARRY_PROTOSETS) + "/" + GetParam().protoset, std::ios::binary);
  pb::FileDescriptorSet files;
  ASSERT_TRUE(files.ParseFromIstream(&protoset));
  pb::DescriptorPool pool;
  const pb::FileDescriptor* source = nullptr;
  for (const auto& file : files.file()) {
    source = pool.BuildFile(file);
    ASSERT_NE(source, nullptr) << file.name();
  }
  ASSERT_EQ(source->name(), GetParam().path);

  const Facts said = NoteFacts(CommentNotes(*source));
  const Facts wanted = NoteFacts(Table().notes);
  EXPECT_THAT(Minus(wanted, said), IsEmpty());
  EXPECT_THAT(Minus(said, wanted), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Csi, DescriptorTest, testing::ValuesIn(CsiFiles()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(WireTable, RefusesARowItDoesNotUnderstand) {
  const std::string head = "[package csi.v1]\n[messages]\n";
  EXPECT_THAT(ParseWireTable(head + "| A | 1 x! s; 2 y A[] |\n").errors, IsEmpty());
  for (const char* row : {"| A | 1 x q |", "| A | x s |", "| A | 1 x s, 2 y s |", "| A | 1 x s; |x", "| A |",
                          "A | 1 x s |", "| A | 1 x Missing |", "| A | 1 x .B{1 y s |"}) {
    EXPECT_FALSE(ParseWireTable(head + row + "\n").errors.empty()) << row;
  }
}

TEST(WireTable, RefusesAWithdrawnMemberWhoseNumberWasNotReserved) {
  const std::string head = "[package csi.v1]\n[messages]\n| A | 1 x s; reserved 2 |\n[withdrawn 1.13]\n";
  EXPECT_THAT(ParseWireTable(head + "| A | 2 y s |\n").errors, IsEmpty());
  EXPECT_FALSE(ParseWireTable(head + "| A | 3 y s |\n").errors.empty());
}

}  // namespace
}  // namespace quarry::proto_test
