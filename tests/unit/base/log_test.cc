#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"

namespace quarry {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
  }
  std::string Written() {
    write_.Reset();
    std::string text(65536, '\0');
    const ssize_t n = read(read_.get(), text.data(), text.size());
    text.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return text;
  }
  UniqueFd read_;
  UniqueFd write_;
};

TEST_F(LogTest, EveryJsonLineParsesWhateverItIsFed) {
  const Logger log(LogLevel::kInfo, LogFormat::kJson, write_.get());
  const std::string hostile = "a\"b\\c\n\x01\x7f\xff\xc0\xaf\xed\xa0\x80 \xc3\xa9";
  log.Info(hostile, {{"path", hostile}, {"count", int64_t{-3}}, {"ok", true}, {"seconds", 0.25}});
  const auto line = nlohmann::json::parse(Written());
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["count"], -3);
  EXPECT_EQ(line["ok"], true);
  EXPECT_TRUE(line["path"].get<std::string>().ends_with(" \xc3\xa9"));
}

TEST_F(LogTest, LevelsBelowTheThresholdAreSilent) {
  const Logger log(LogLevel::kWarning, LogFormat::kText, write_.get());
  log.Info("quiet");
  log.Warning("loud", {{"who", std::string_view("me")}});
  const std::string text = Written();
  EXPECT_EQ(text.find("quiet"), std::string::npos);
  EXPECT_NE(text.find("loud who=\"me\""), std::string::npos);
}

TEST_F(LogTest, LinesOfATracedCallHaveItsId) {
  const Logger log(LogLevel::kInfo, LogFormat::kJson, write_.get());
  {
    const LogTrace outer("outer");
    {
      const LogTrace inner("in\"ner");
      log.Info("one");
    }
    log.Info("two");
    std::jthread([&log] { log.Info("elsewhere"); }).join();
  }
  log.Info("three");
  const std::string text = Written();
  EXPECT_NE(text.find(R"("msg":"one","trace":"in\"ner"})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("msg":"two","trace":"outer"})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("msg":"elsewhere"})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("msg":"three"})"), std::string::npos) << text;
}

TEST_F(LogTest, TheLevelMayChange) {
  Logger log(LogLevel::kWarning, LogFormat::kText, write_.get());
  log.Info("before");
  log.SetLevel(LogLevel::kInfo);
  log.Info("after");
  const std::string text = Written();
  EXPECT_EQ(text.find("before"), std::string::npos);
  EXPECT_NE(text.find("after"), std::string::npos);
}

TEST_F(LogTest, NoTerminalActsOnWhatIsLogged) {
  const std::string hostile =
      "a\xc2\x9b"
      "31mb\xc2\x80"
      "c\x1b"
      "d\xc2\xa0"
      "e";
  EXPECT_EQ(JsonString(hostile),
            "\"a\\u009b31mb\\u0080c\\u001bd\xc2\xa0"
            "e\"");
  EXPECT_EQ(nlohmann::json::parse(JsonString(hostile)).get<std::string>(), hostile);
  const Logger log(LogLevel::kInfo, LogFormat::kText, write_.get());
  log.Info(hostile, {{"who", hostile}});
  const std::string text = Written();
  EXPECT_NE(text.find("a\\u009b31mb\\u0080c\\u001bd\xc2\xa0"
                      "e who=\"a\\u009b31m"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace quarry
