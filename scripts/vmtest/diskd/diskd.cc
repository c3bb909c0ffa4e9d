// diskd: the disks of one guest, outside QEMU so that they can fail, hang and lose power independently of it.
//
//   diskd SOCKET_FD:FILE …     disks 1, 2, …; each socket is connected to QEMU's NBD client
//
// Commands come as lines on standard input, each answered by one line, "ok …" or "error: …". At the end of
// input, diskd ends. NBD itself has no faults.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "disk.h"
#include "nbd.h"

namespace vmtest {
namespace {

using Disks = std::vector<std::unique_ptr<Disk>>;

template <typename T>
std::optional<T> Number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<unsigned> FaultKinds(const std::string& name) {
  if (name == "read") {
    return Disk::kRead;
  }
  if (name == "half") {
    return Disk::kHalfOfReads;
  }
  if (name == "write") {
    return Disk::kWrite;
  }
  if (name == "flush") {
    return Disk::kFlush;
  }
  if (name == "all") {
    return Disk::kRead | Disk::kWrite | Disk::kFlush;
  }
  if (name == "off") {
    return 0;
  }
  return std::nullopt;
}

std::string SetFaults(Disk& disk, const std::vector<std::string>& words) {
  const auto kinds = words.size() > 2 ? FaultKinds(words[2]) : std::nullopt;
  std::optional<uint64_t> first = 0, length = UINT64_MAX;
  if (words.size() == 5) {
    first = Number<uint64_t>(words[3]);
    length = Number<uint64_t>(words[4]);
  }
  const bool well_formed = words.size() == 3 || words.size() == 5;
  if (!well_formed || !kinds || !first || !length) {
    return "error: wanted read, half, write, flush, all or off [FIRST LENGTH]";
  }
  disk.SetFaults(*kinds, *first, *length);
  return "ok";
}

std::string Slow(Disk& disk, const std::vector<std::string>& words) {
  const auto milliseconds = words.size() > 2 ? Number<unsigned>(words[2]) : std::nullopt;
  const bool zeroes = words.size() == 4 && words[3] == "zeroes";
  if (!milliseconds || (words.size() > 3 && !zeroes)) {
    return "error: wanted a number of milliseconds [zeroes]";
  }
  if (zeroes) {
    disk.SlowZeroes(*milliseconds);
  } else {
    disk.Slow(*milliseconds);
  }
  return "ok";
}

std::string Cut(const Disks& disks, const std::vector<std::string>& words) {
  const std::string lose = words.size() > 1 ? words[1] : "all";
  const auto seed = words.size() > 2 ? Number<unsigned>(words[2]) : 1;
  if ((lose != "all" && lose != "none" && lose != "some") || !seed) {
    return "error: wanted all, none or some";
  }
  const Disk::Lose how = lose == "all"    ? Disk::Lose::kAll
                         : lose == "none" ? Disk::Lose::kNone
                                          : Disk::Lose::kSome;
  for (size_t i = 0; i < disks.size(); ++i) {
    disks[i]->CutPower(how, *seed + static_cast<unsigned>(i));
  }
  return "ok";
}

std::string Obey(const Disks& disks, const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  if (words.empty()) {
    return "error: empty command";
  }
  if (words[0] == "cut") {
    return Cut(disks, words);
  }
  const auto number = words.size() > 1 ? Number<size_t>(words[1]) : std::nullopt;
  if (!number || *number < 1 || *number > disks.size()) {
    return "error: there is no such disk";
  }
  Disk& disk = *disks[*number - 1];
  if (words[0] == "info") {
    return "ok " + disk.Describe();
  }
  if (words[0] == "error") {
    return SetFaults(disk, words);
  }
  if (words[0] == "slow") {
    return Slow(disk, words);
  }
  if (words[0] == "stall" || words[0] == "unstall") {
    disk.Stall(words[0] == "stall");
  } else if (words[0] == "pull") {
    disk.Pull();
  } else if (words[0] == "return") {
    disk.Return();
  } else {
    return "error: unknown command " + words[0];
  }
  return "ok";
}

int Main(int argc, char** argv) {
  Disks disks;
  for (int i = 1; i < argc; ++i) {
    const char* path = strchr(argv[i], ':');
    const int fd = path != nullptr ? open(path + 1, O_RDWR | O_CLOEXEC) : -1;
    struct stat status{};
    if (fd < 0 || fstat(fd, &status) != 0) {
      perror(argv[i]);
      return 1;
    }
    disks.push_back(std::make_unique<Disk>(fd, static_cast<uint64_t>(status.st_size)));
    std::thread([socket = atoi(argv[i]), &disk = *disks.back()] {
      ServeNbd(socket, disk);
      disk.Settle();
    }).detach();
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Obey(disks, line) << std::endl;
  }
  for (const auto& disk : disks) {
    disk->Settle();
  }
  // Not exit(), because the serving threads still use the disks.
  _exit(0);
}

}  // namespace
}  // namespace vmtest

int main(int argc, char** argv) {
  return vmtest::Main(argc, argv);
}
