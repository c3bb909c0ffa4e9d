// quarry-gateway: runs the S3 gateway of this node's buckets, as quarryd tells it by gateway.env.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/log.h"
#include "gateway/gateway_command.h"
#include "gateway/keeper.h"

namespace {

constexpr int kFailed = 1;
constexpr int kBadSettings = 2;  // as quarryd: a restart does not repair it

struct Asked {
  std::string folder = "/run/quarry/s3";
  std::string versitygw;
  bool any_version = false;
  std::string log_format = "json";
};

void Describe(CLI::App& app, Asked& asked) {
  app.set_version_flag("--version", "quarry-gateway " QUARRY_VERSION);
  app.add_option("--dir", asked.folder, "folder that quarryd and the gateway share")->capture_default_str();
  app.add_option(
      "--versitygw", asked.versitygw,
      "program of the S3 gateway; default: versitygw beside this program, in ../libexec/quarry, or in PATH");
  app.add_flag("--any-versitygw", asked.any_version,
               "run a versitygw of any version: only one was tested with Quarry, and others may lose objects "
               "or let revoked accounts in");
  app.add_option("--log-format", asked.log_format, "json or text")
      ->capture_default_str()
      ->check(CLI::IsMember({"json", "text"}));
}

std::string FolderOfThisProgram() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

quarry::Result<quarry::gateway::KeeperSettings> Settings(const Asked& asked) {
  QUARRY_ASSIGN(auto folder, quarry::AbsolutePath::Parse(asked.folder).Context("--dir"));
  std::string versitygw = asked.versitygw;
  if (versitygw.empty()) {
    const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): there is one thread
    QUARRY_ASSIGN(versitygw,
                  quarry::gateway::FindVersitygw(FolderOfThisProgram(), path == nullptr ? "" : path));
  } else {
    QUARRY_ASSIGN(const auto checked, quarry::AbsolutePath::Parse(versitygw).Context("--versitygw"));
    versitygw = checked.str();
  }
  return quarry::gateway::KeeperSettings{
      .folder = std::move(folder), .versitygw = std::move(versitygw), .any_version = asked.any_version};
}

int Run(const Asked& asked) {
  const auto format = asked.log_format == "json" ? quarry::LogFormat::kJson : quarry::LogFormat::kText;
  const quarry::Logger log(quarry::LogLevel::kInfo, format);
  auto settings = Settings(asked);
  if (!settings.has_value()) {
    log.Error("bad settings", {{"error", settings.error().message()}});
    return kBadSettings;
  }
  auto keeper = quarry::gateway::Keeper::Create(std::move(*settings), log);
  if (!keeper.has_value()) {
    log.Error("cannot start", {{"error", keeper.error().message()}});
    return kFailed;
  }
  return keeper->Run().has_value() ? EXIT_SUCCESS : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs the S3 gateway of this node's buckets (docs/buckets.md). It waits for gateway.env, becomes the "
      "user "
      "that owns it, and keeps versitygw running.");
  Asked asked;
  Describe(app, asked);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kBadSettings;
  }
  return Run(asked);
}
