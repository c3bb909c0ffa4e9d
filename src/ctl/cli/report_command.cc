// report.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "ctl/cli/tables.h"
#include "ctl/json_text.h"
#include "ctl/node_facts.h"
#include "ctl/report.h"

namespace quarry::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kPacking{5};
constexpr const char* kTar = "/bin/tar";

struct ReportWish {
  std::string file, directory, endpoint;
};

// "quarry-report-node1-20260102T030405Z".
std::string ReportName() {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  std::string name(host.data());
  std::ranges::replace(name, '/', '_');
  return fmt::format("quarry-report-{}-{:%Y%m%dT%H%M%SZ}", name.empty() ? "node" : name,
                     fmt::gmtime(time(nullptr)));
}

Result<AbsolutePath> MakeFolder(const std::string& path) {
  QUARRY_ASSIGN(AbsolutePath made, AbsolutePath::Parse(fs::absolute(path).lexically_normal().string()));
  if (mkdir(made.str().c_str(), 0700) != 0) {
    return ErrnoError(fmt::format("making the directory '{}'", path));
  }
  return made;
}

NodeQuestion QuestionOf(const Common& common, const ReportWish& wish, const std::string& scratch) {
  NodeQuestion question;
  question.program = fs::read_symlink("/proc/self/exe").string();
  question.version = "quarryctl " QUARRY_VERSION;
  question.config = common.config.empty() ? daemon::kDefaultConfig : common.config;
  question.scratch = scratch;
  question.endpoint = wish.endpoint;
  if (!common.config.empty()) {
    question.own_flags.insert(question.own_flags.end(), {"--config", common.config});
  }
  for (const std::string& pool : common.pools) {
    question.own_flags.insert(question.own_flags.end(), {"--pool", pool});
  }
  // Without a valid configuration the report goes without metrics, and says in its parts what is wrong.
  if (auto options = LoadOptions(common); options.has_value()) {
    question.metrics = std::move(options->metrics);
  }
  return question;
}

// Packs `folder`/`name` into a new file that only root may read.
Status Pack(const std::string& folder, const std::string& name, const std::string& file,
            Subprocess& children) {
  if (access(kTar, X_OK) != 0) {
    return Error(Code::kNotFound,
                 "tar is not installed here: `quarryctl report --directory DIR` writes a directory");
  }
  const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("making the file '{}'", file));
  }
  // By descriptor: whoever owns the directory could put a link in the place of the file.
  const std::string opened = fmt::format("/proc/{}/fd/{}", getpid(), fd.get());
  const auto done = children.Run(
      {.argv = {kTar, "--create", "--gzip", "--file", opened, "--force-local", "--directory", folder, name},
       .env = {{"PATH", "/usr/bin:/bin"}, {"LC_ALL", "C"}},
       .input = ""},
      CallWithin(kPacking));
  const bool packed = done.has_value() && done->ok();
  if (packed) {
    return Ok();
  }
  unlink(file.c_str());
  return done.has_value() ? Status(Error(Code::kIo, fmt::format("tar: {}", ToolWords(done->err))))
                          : done.error();
}

std::string Summary(const std::string& place, const std::vector<ReportedPart>& parts, bool json) {
  std::string text = fmt::format("{}: {} parts\n", place, parts.size());
  nlohmann::json page = {{"report", place}, {"parts", nlohmann::json::array()}};
  for (const ReportedPart& part : parts) {
    page["parts"].push_back({{"name", part.name},
                             {"bytes", part.text.size()},
                             {"problem", part.problem},
                             {"ms", part.took.count()}});
    if (!part.problem.empty()) {
      text += fmt::format("  without {}: {}\n", part.name, part.problem);
    }
  }
  text +=
      "Look through it before you give it away: it has the names of disks, volumes, mounts and processes.\n";
  return json ? JsonLine(page) : text;
}

Result<std::string> MakeReport(const Common& common, const ReportWish& wish) {
  const auto children = std::make_shared<SpawnSubprocess>();
  const std::string name = ReportName();
  QUARRY_ASSIGN(const ScratchFolder scratch,
                ScratchFolder::Make((fs::temp_directory_path() / "quarry-report-XXXXXX").string()));
  QUARRY_ASSIGN(const AbsolutePath texts, MakeFolder(scratch.path() + "/groups"));
  QUARRY_ASSIGN(const AbsolutePath folder,
                MakeFolder(wish.directory.empty() ? scratch.path() + "/" + name : wish.directory));
  const auto parts = CollectReport(NodeFacts(QuestionOf(common, wish, texts.str()), children));
  QUARRY_TRY(WriteReport(folder, parts));
  if (!wish.directory.empty()) {
    return Summary(wish.directory, parts, common.json);
  }
  const std::string file = wish.file.empty() ? name + ".tar.gz" : wish.file;
  QUARRY_TRY(Pack(scratch.path(), name, file, *children));
  return Summary(file, parts, common.json);
}

Run SetUpReport(CLI::App& sub, const Common& common) {
  const auto wish = std::make_shared<ReportWish>();
  auto* file =
      sub.add_option("FILE", wish->file, "archive to write, a new file [quarry-report-HOST-TIME.tar.gz]");
  sub.add_option("--directory", wish->directory, "write a new directory instead of an archive")
      ->excludes(file);
  sub.add_option("--endpoint", wish->endpoint, "quarryd's --admin-endpoint")
      ->envname("QUARRY_ADMIN_ENDPOINT");
  sub.footer("Example: quarryctl report /root/before-the-update.tar.gz");
  return [wish, &common](int&) {
    umask(077);
    return MakeReport(common, *wish);
  };
}

}  // namespace

std::vector<Command> ReportCommands() {
  return {{"report",
           "an archive for whoever has to help: state of quarryd, LVM, device-mapper, disks and kernel, "
           "their logs, "
           "the configuration without secrets",
           &SetUpReport}};
}

}  // namespace quarry::ctl
