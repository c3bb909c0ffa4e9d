#include "tests/bench/lvm_times.h"

#include <httplib.h>

#include <sstream>

namespace quarry::bench {

Result<LvmTimes> ReadLvmTimes(const std::string& metrics_socket) {
  httplib::Client http(metrics_socket);
  http.set_address_family(AF_UNIX);
  http.set_read_timeout(std::chrono::seconds(60));
  const auto answer = http.Get("/metrics");
  if (!answer || answer->status != 200) {
    return Error(Code::kUnavailable, "no metrics on " + metrics_socket);
  }
  return ParseLvmTimes(answer->body);
}

LvmTimes ParseLvmTimes(const std::string& text) {
  static const std::string kBegin = "quarry_lvm_command_duration_seconds_sum{verb=\"";
  LvmTimes out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find("\"} ");
    if (line.starts_with(kBegin) && end != std::string::npos) {
      out[line.substr(kBegin.size(), end - kBegin.size())] = std::stod(line.substr(end + 3));
    }
  }
  return out;
}

std::vector<std::pair<std::string, double>> PerCall(const LvmTimes& before, const LvmTimes& after,
                                                    size_t calls) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [verb, seconds] : after) {
    const auto earlier = before.find(verb);
    const double spent = seconds - (earlier == before.end() ? 0 : earlier->second);
    if (spent > 0 && calls > 0) {
      out.emplace_back(verb + "_ms", spent * 1000 / static_cast<double>(calls));
    }
  }
  return out;
}

}  // namespace quarry::bench
