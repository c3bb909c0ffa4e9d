#include "engine/erase/failure_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/unique_fd.h"

namespace quarry::engine {
namespace {

using testing::HasSubstr;

class FailureLogTest : public testing::Test {
 protected:
  // The lines that were logged so far.
  std::string Logged() const {
    std::string text(4096, '\0');
    const ssize_t length = pread(log_fd_.get(), text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    return text;
  }
  std::ptrdiff_t Lines() const { return std::ranges::count(Logged(), '\n'); }
  static Status Fault(const std::string& words) { return Error(Code::kIo, words); }

  UniqueFd log_fd_{memfd_create("log", MFD_CLOEXEC)};
  Logger log_{LogLevel::kInfo, LogFormat::kText, log_fd_.get()};
  FailureLog failures_{log_, "default", {.fails = "it fails", .recovered = "it works again"}};
};

TEST_F(FailureLogTest, ARepeatedFailureHasOneLine) {
  failures_.Note("one", Fault("disk a does not answer"));
  failures_.Note("one", Fault("disk a does not answer"));
  EXPECT_EQ(Lines(), 1);
  EXPECT_THAT(Logged(), HasSubstr("it fails"));
  EXPECT_THAT(Logged(), HasSubstr("disk a does not answer"));
}

TEST_F(FailureLogTest, AnotherReasonOrVolumeHasALineOfItsOwn) {
  failures_.Note("one", Fault("disk a does not answer"));
  failures_.Note("one", Fault("disk b does not answer"));
  failures_.Note("two", Fault("disk b does not answer"));
  EXPECT_EQ(Lines(), 3);
}

TEST_F(FailureLogTest, TheEndOfAFailureHasOneLine) {
  failures_.Note("one", Ok());
  EXPECT_EQ(Lines(), 0) << "nothing has failed";
  failures_.Note("one", Fault("disk a does not answer"));
  failures_.Note("one", Ok());
  failures_.Note("one", Ok());
  EXPECT_EQ(Lines(), 2);
  EXPECT_THAT(Logged(), HasSubstr("it works again"));
  failures_.Note("one", Fault("disk a does not answer"));
  EXPECT_EQ(Lines(), 3) << "a new failure for the same reason";
}

TEST_F(FailureLogTest, AFailureOfThePoolNamesNoVolume) {
  failures_.Note("", Fault("no group"));
  EXPECT_THAT(Logged(), testing::Not(HasSubstr("lv=")));
  EXPECT_THAT(Logged(), HasSubstr("default"));
}

TEST_F(FailureLogTest, AForgottenVolumeDoesNotRecover) {
  failures_.Note("one", Fault("disk a does not answer"));
  failures_.Note("", Fault("no group"));
  failures_.Forget([](const std::string& lv) { return lv == "one"; });
  failures_.Note("one", Ok());
  EXPECT_EQ(Lines(), 2);
  failures_.Note("", Ok());
  EXPECT_EQ(Lines(), 3);
}

}  // namespace
}  // namespace quarry::engine
