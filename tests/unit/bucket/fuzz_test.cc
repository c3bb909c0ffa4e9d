// Runs the fuzzer's entry point over a corpus and over mutations of it. A fuzzer does this for hours; here it
// takes a moment, in every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

const std::vector<std::string>& Corpus() {
  static const std::vector<std::string> corpus = {
      "versitygw.success_count:1|c|#service:quarry,method:PUT,api:s3,action:PutObject,bucket:logs,status:200",
      "versitygw.bytes_read:4096|c|#service:quarry,method:GET,api:s3,action:GetObject,bucket:logs,status:206",
      "versitygw.failed_count:7|c|#action:ListObjectsV2,bucket:,status:503|c:in-4026531835",
      "versitygw.failed_count:9007199254740992|c|#service:a,method,api:unknown,action:ActionUnDetected,"
      "status:599",
      "datadog.dogstatsd.client.packets_sent:3|c|#client:go,transport:uds",
  };
  return corpus;
}

void Feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Makes one change: a byte, a piece removed, doubled, or taken from another input of the corpus.
std::string Mutate(std::string input, std::mt19937& random) {
  static const std::string spice = "|,:#.0129\n\xFF";
  const auto at = [&](const std::string& text) { return random() % (text.size() + 1); };
  switch (random() % 4) {
    case 0:
      input.insert(at(input), 1, spice[random() % spice.size()]);
      break;
    case 1:
      input.erase(at(input), random() % 8);
      break;
    case 2:
      input.insert(at(input), input.substr(at(input), random() % 32));
      break;
    default: {
      const std::string& other = Corpus()[random() % Corpus().size()];
      input.insert(at(input), other.substr(at(other), random() % 64));
    }
  }
  return input;
}

TEST(GatewayReportFuzz, NoMutationOfAReportDoesHarm) {
  std::mt19937 random(1);
  for (const std::string& seed : Corpus()) {
    for (size_t length = 0; length <= seed.size(); ++length) {
      Feed(seed.substr(0, length));
    }
    for (int i = 0; i < 20'000; ++i) {
      std::string input = Mutate(seed, random);
      for (size_t more = random() % 4; more > 0; --more) {
        input = Mutate(std::move(input), random);
      }
      Feed(input);
    }
  }
}

}  // namespace
