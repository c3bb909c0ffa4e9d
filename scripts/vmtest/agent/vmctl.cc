#include "vmctl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "wire.h"

namespace vmtest {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "usage: vmctl COMMAND\n"
    "  info                     show the state of the disks\n"
    "  dev N                    print the device node of disk N; fails if it has "
    "none\n"
    "  pull N                   take disk N out; it loses what it had not "
    "flushed\n"
    "  return N                 put disk N back and print its device node\n"
    "  stall N | unstall N      let the disk's I/O hang | go on\n"
    "  slow N MS [zeroes]       delay each I/O by so many milliseconds; 0: no "
    "delay.\n"
    "                           zeroes: delay only zeroing, and other I/O goes "
    "on meanwhile\n"
    "  error N read|half|write|flush|all|off [FIRST LENGTH]   fail the disk's I/O "
    "(to these bytes)\n"
    "  warn N BITS              set the critical warnings of an NVMe disk's "
    "health log\n"
    "  cut [--lose all|none|some] [-- CMD…]   cut the power; boot again and "
    "run CMD\n"
    "  reboot [--shuffle] -- CMD…   switch off in order, boot again and run "
    "CMD;\n"
    "                           --shuffle: with the disks in the opposite order on their bus\n";

constexpr int kHotplugSeconds = 30;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Trimmed(const std::string& text) {
  const char blanks[] = " \n";
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Each bus has the serial number in another place.
std::string SerialOf(const fs::path& block) {
  for (const char* place : {"device/serial", "serial"}) {
    const std::string serial = Trimmed(ReadFile(block / place));
    if (!serial.empty()) {
      return serial;
    }
  }
  constexpr size_t kPageHeader = 4;
  const std::string page = ReadFile(block / "device/vpd_pg80");
  return page.size() > kPageHeader ? Trimmed(page.substr(kPageHeader)) : std::string();
}

// Reads sysfs and not udev's links, because sysfs is never behind the kernel.
std::string DeviceOf(const std::string& disk) {
  const std::string serial = "quarry" + disk;
  std::error_code ignored;
  for (const auto& block : fs::directory_iterator("/sys/block", ignored)) {
    if (Trimmed(ReadFile(block.path() / "hidden")) == "1" || SerialOf(block.path()) != serial) {
      continue;
    }
    const std::string node = "/dev/" + block.path().filename().string();
    if (fs::exists(node, ignored)) {
      return node;
    }
  }
  return {};
}

bool WaitForDevice(const std::string& disk, bool present) {
  for (int i = 0; i < kHotplugSeconds * 20; ++i) {
    if (DeviceOf(disk).empty() != present) {
      return true;
    }
    usleep(50'000);
  }
  return false;
}

int Ask(const std::vector<std::string>& arguments) {
  const int host = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, kRequestSocket, sizeof address.sun_path - 1);
  if (host < 0 || connect(host, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fprintf(stderr, "vmctl: %s: %s\n", kRequestSocket, strerror(errno));
    return 1;
  }
  std::string request;
  for (const std::string& argument : arguments) {
    request.append(argument).push_back('\0');
  }
  char reply[kMaxPayload];
  ssize_t got = -1;
  if (send(host, request.data(), request.size(), MSG_NOSIGNAL) >= 0) {
    got = recv(host, reply, sizeof reply, 0);
  }
  close(host);
  if (got < 1) {
    fprintf(stderr, "vmctl: no answer from the host\n");
    return 1;
  }
  const int status = static_cast<unsigned char>(reply[0]);
  fwrite(reply + 1, 1, static_cast<size_t>(got - 1), status == 0 ? stdout : stderr);
  return status;
}

// Makes the root file system outlive a cut; the disks under test are not touched. Without a journal ext4's
// fsync may leave an inode in memory, and the first syncfs writes metadata after it has flushed the disk's
// cache: the second one flushes that too.
void KeepRoot() {
  const int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0 || syncfs(root) != 0 || syncfs(root) != 0) {
    perror("vmctl: syncing the root file system");
  }
  close(root);
}

int ShowDevice(const std::string& disk) {
  const std::string node = DeviceOf(disk);
  if (node.empty()) {
    fprintf(stderr, "vmctl: disk %s has no device now\n", disk.c_str());
    return 1;
  }
  puts(node.c_str());
  return 0;
}

}  // namespace

int RunVmctl(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help") {
    fputs(kUsage, arguments.empty() ? stderr : stdout);
    return arguments.empty() ? 2 : 0;
  }
  const std::string& verb = arguments[0];
  const bool one_disk = verb == "dev" || verb == "pull" || verb == "return";
  if (one_disk && arguments.size() != 2) {
    fputs(kUsage, stderr);
    return 2;
  }
  if (verb == "dev") {
    return ShowDevice(arguments[1]);
  }
  if (verb == "cut") {
    KeepRoot();
  }
  const int status = Ask(arguments);
  if (status != 0 || !one_disk) {
    return status;
  }
  if (!WaitForDevice(arguments[1], verb == "return")) {
    fprintf(stderr, "vmctl: the kernel did not notice: %s of disk %s\n", verb.c_str(), arguments[1].c_str());
    return 1;
  }
  return verb == "return" ? ShowDevice(arguments[1]) : 0;
}

}  // namespace vmtest
