#include "base/unix_socket.h"

#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace quarry {
namespace {

class SocketFileTest : public testing::Test {
 protected:
  SocketFileTest() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    const sockaddr_un address = *UnixAddress(path());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~SocketFileTest() override { std::filesystem::remove_all(folder_); }

  AbsolutePath path() const { return *AbsolutePath::Parse(folder_ + "/s"); }

  std::string folder_ = "/tmp/quarry-socket-XXXXXX";
  const UniqueFd fd_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST_F(SocketFileTest, IsRemovedWhileItIsInPlace) {
  const SocketFile file(path());
  EXPECT_TRUE(file.InPlace());
  file.Remove();
  EXPECT_FALSE(file.InPlace());
  EXPECT_FALSE(std::filesystem::exists(path().str()));
}

TEST_F(SocketFileTest, AnotherFileInItsPlaceIsLeftAlone) {
  const SocketFile file(path());
  std::filesystem::remove(path().str());
  std::ofstream(path().str()) << "another's";
  EXPECT_FALSE(file.InPlace());
  file.Remove();
  EXPECT_TRUE(std::filesystem::exists(path().str()));
}

TEST_F(SocketFileTest, AFileThatWasNeverThereIsNotInPlace) {
  std::filesystem::remove(path().str());
  const SocketFile file(path());
  std::ofstream(path().str()) << "another's";
  EXPECT_FALSE(file.InPlace());
}

TEST(UnixAddress, HasRoomFor107Bytes) {
  EXPECT_TRUE(UnixAddress(*AbsolutePath::Parse("/" + std::string(106, 'a'))).has_value());
  EXPECT_EQ(UnixAddress(*AbsolutePath::Parse("/" + std::string(107, 'a'))).error().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace quarry
