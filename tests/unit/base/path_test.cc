#include "base/path.h"

#include <gtest/gtest.h>

#include <climits>

namespace quarry {
namespace {

TEST(AbsolutePath, FoldsSlashes) {
  EXPECT_EQ(AbsolutePath::Parse("/a//b/")->str(), "/a/b");
  EXPECT_EQ(AbsolutePath::Parse("/")->str(), "/");
  EXPECT_EQ(AbsolutePath::Parse("///")->str(), "/");
}

TEST(AbsolutePath, KeepsOddButLegalNames) {
  EXPECT_EQ(AbsolutePath::Parse("/a b/c\nd/...")->str(), "/a b/c\nd/...");
}

TEST(AbsolutePath, RefusesWhatCouldPointElsewhere) {
  const std::string long_path = "/" + std::string(PATH_MAX, 'x');
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string("/a/../b"), std::string("/./a"), std::string("/a/.."),
        std::string("/a\0b", 4), long_path}) {
    const auto path = AbsolutePath::Parse(bad);
    ASSERT_FALSE(path.has_value()) << bad;
    EXPECT_EQ(path.error().code(), Code::kInvalidArgument);
  }
}

TEST(AbsolutePath, KnowsParentAndName) {
  const auto path = AbsolutePath::Parse("/a/b");
  EXPECT_EQ(path->Name(), "b");
  EXPECT_EQ(path->Parent().str(), "/a");
  EXPECT_EQ(path->Parent().Parent().str(), "/");
}

}  // namespace
}  // namespace quarry
