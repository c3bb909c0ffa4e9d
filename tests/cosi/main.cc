// quarry-cosi-check SOCKET [KEY=VALUE…] [--smaller KEY=VALUE…]: checks every rule of COSI, in both versions,
// on the driver behind a unix socket. The words are the parameters of a bucket that the driver can make. A
// bucket with "ondelete=erase" differs from it. The words after --smaller make it a smaller one; without them
// no rule about sizes is checked.
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include "tests/cosi/rules.h"

using namespace quarry::cosi_check;

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: quarry-cosi-check SOCKET [KEY=VALUE…] [--smaller KEY=VALUE…]\n";
    return 2;
  }
  Settings settings;
  Map* into = &settings.parameters;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (word == "--smaller") {
      settings.smaller_parameters = settings.parameters;
      into = &settings.smaller_parameters;
    } else if (equals == std::string::npos) {
      std::cerr << fmt::format("quarry-cosi-check: '{}' is no KEY=VALUE\n", word);
      return 2;
    } else {
      (*into)[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  settings.other_parameters = settings.parameters;
  settings.other_parameters["ondelete"] = "erase";
  const auto channel =
      grpc::CreateChannel(std::string("unix:") + argv[1], grpc::InsecureChannelCredentials());
  int broken = 0;
  for (const auto& driver : {MakeV1alpha1(channel), MakeV1alpha2(channel)}) {
    settings.prefix = fmt::format("check-{}-{}-", driver->version(), getpid());
    for (const Finding& finding : CheckRules(*driver, settings)) {
      broken += finding.problem.empty() ? 0 : 1;
      std::cout << fmt::format("{} {} {}{}{}\n", finding.problem.empty() ? "ok    " : "BROKEN",
                               driver->version(), finding.rule, finding.problem.empty() ? "" : ": ",
                               finding.problem)
                << std::flush;
    }
  }
  std::cout << fmt::format("{} rules are broken\n", broken);
  return broken == 0 ? 0 : 1;
}
