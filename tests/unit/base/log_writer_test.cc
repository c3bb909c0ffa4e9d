#include "base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"
#include "base/unique_fd.h"

namespace quarry {
namespace {

using std::chrono::seconds;

class LogWriterTest : public testing::Test {
 protected:
  LogWriterTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
    EXPECT_GE(fcntl(write_.get(), F_SETPIPE_SZ, 4096), 4096);
  }
  static std::string Notice(uint64_t lost) { return fmt::format("lost {}\n", lost); }
  // Until the other end is closed.
  std::string ReadAll() const {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 1; got > 0;) {
      got = read(read_.get(), buffer.data(), buffer.size());
      text.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
    return text;
  }
  UniqueFd read_, write_;
};

TEST_F(LogWriterTest, CallersDoNotWaitForALogWithoutReader) {
  constexpr uint64_t kLines = 200'000;  // several times the queue's limit
  LogWriter writer(write_.get(), &Notice);
  const Logger log(LogLevel::kInfo, LogFormat::kJson, writer);
  for (uint64_t i = 0; i < kLines; ++i) {
    log.Info("a line", {{"number", static_cast<int64_t>(i)}});
  }
  EXPECT_GT(writer.lost(), 0);
  EXPECT_FALSE(writer.Flush(std::chrono::milliseconds(1)));
  EXPECT_EQ(fcntl(write_.get(), F_GETFL) & O_NONBLOCK, 0) << "others share the open file";
  std::jthread reader([&] { ReadAll(); });
  EXPECT_TRUE(writer.Flush(seconds(60)));
  write_.Reset();
}

TEST_F(LogWriterTest, ALogThatWorksHasTheLineWhenTheCallReturns) {
  LogWriter writer(write_.get(), &Notice);
  std::array<char, 16> buffer{};
  int there = 0;
  for (int i = 0; i < 100; ++i) {
    writer.Write("a line\n");
    pollfd readable{read_.get(), POLLIN, 0};
    there += poll(&readable, 1, 0) == 1 ? 1 : 0;
    EXPECT_TRUE(writer.Flush(seconds(60)));
    EXPECT_EQ(read(read_.get(), buffer.data(), buffer.size()), 7);
  }
  EXPECT_GE(there, 50) << "but for a machine that is busy with other things";
}

TEST_F(LogWriterTest, ALogThatWorksAgainIsToldHowManyLinesItMisses) {
  constexpr uint64_t kLines = 200'000;
  LogWriter writer(write_.get(), &Notice);
  for (uint64_t i = 0; i < kLines; ++i) {
    writer.Write(fmt::format("line {}\n", i));
  }
  const uint64_t lost = writer.lost();
  ASSERT_GT(lost, 0);
  std::string text;
  std::jthread reader([&] { text = ReadAll(); });
  EXPECT_TRUE(writer.Flush(seconds(60)));
  writer.Write("and on\n");
  EXPECT_TRUE(writer.Flush(seconds(60)));
  write_.Reset();
  reader.join();
  std::string wanted;
  for (uint64_t i = 0; i < kLines - lost; ++i) {
    wanted += fmt::format("line {}\n", i);
  }
  EXPECT_TRUE(text == wanted + fmt::format("lost {}\n", lost) + "and on\n")
      << "ends with: " << text.substr(text.size() - std::min<size_t>(text.size(), 200));
  EXPECT_EQ(writer.lost(), lost);
}

TEST_F(LogWriterTest, LinesOfManyThreadsComeOutWhole) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::string text;
  std::jthread reader([&] { text = ReadAll(); });
  {
    LogWriter writer(write_.get(), &Notice);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&writer, t] {
        for (int i = 0; i < kEach; ++i) {
          writer.Write(fmt::format("{}:{}\n", t, i));
        }
      });
    }
    threads.clear();
    EXPECT_TRUE(writer.Flush(seconds(60)));
  }
  write_.Reset();
  reader.join();
  std::array<int, kThreads> next{};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t thread = std::stoul(line);
    ASSERT_LT(thread, next.size());
    EXPECT_EQ(line, fmt::format("{}:{}", thread, next.at(thread)++));
  }
  for (const int count : next) {
    EXPECT_EQ(count, kEach);
  }
}

TEST_F(LogWriterTest, AClosedLogBlocksNoCaller) {
  LogWriter writer(write_.get(), &Notice);
  read_.Reset();
  for (int i = 0; i < 3; ++i) {
    writer.Write("a line\n");
    EXPECT_TRUE(writer.Flush(seconds(60)));
  }
  EXPECT_EQ(writer.lost(), 3);
}

TEST_F(LogWriterTest, TheLastLinesAreOutWhenItEnds) {
  {
    LogWriter writer(write_.get(), &Notice);
    writer.Write("first\n");
    writer.Write("last\n");
  }
  write_.Reset();
  EXPECT_EQ(ReadAll(), "first\nlast\n");
}

}  // namespace
}  // namespace quarry
