// thin_cut [--nolockfs] [--stop-after delete|suspend|create] POOL ORIGIN:ID:NEW…: snapshots of thin volumes
// at one instant, by raw messages.
//
// Deletes the thin devices NEW, suspends all origins, makes each NEW a snapshot of the device ID, resumes the
// origins. ORIGIN is the device-mapper name of an active thin volume, or - for an inactive one. With
// --stop-after the process ends after that step as a crash would: suspended devices stay suspended. Prints
// the microseconds of each step, and how long the origins were suspended.
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Cut {
  std::string origin, origin_id, new_id;
};

class Mapper {
 public:
  Mapper() : control_(open("/dev/mapper/control", O_RDWR | O_CLOEXEC)) {
    if (control_ < 0) {
      perror("/dev/mapper/control");
      exit(1);  // NOLINT(concurrency-mt-unsafe): the only thread
    }
  }

  bool Message(const std::string& pool, const std::string& text) const {
    std::vector<char> data(sizeof(dm_target_msg) + text.size() + 1);
    memcpy(data.data() + sizeof(dm_target_msg), text.c_str(), text.size() + 1);
    return Send(DM_TARGET_MSG, pool, 0, data, text);
  }
  bool Suspend(const std::string& device, bool lockfs) const {
    return Send(DM_DEV_SUSPEND, device, DM_SUSPEND_FLAG | (lockfs ? 0 : DM_SKIP_LOCKFS_FLAG), {}, "suspend");
  }
  bool Resume(const std::string& device) const { return Send(DM_DEV_SUSPEND, device, 0, {}, "resume"); }

 private:
  bool Send(unsigned long request, const std::string& device, unsigned flags, const std::vector<char>& data,
            const std::string& what) const {
    std::vector<char> buffer(sizeof(dm_ioctl) + data.size() + 4096);
    auto* header = reinterpret_cast<dm_ioctl*>(buffer.data());
    header->version[0] = DM_VERSION_MAJOR;
    header->data_size = static_cast<unsigned>(buffer.size());
    header->data_start = sizeof(dm_ioctl);
    header->flags = flags;
    snprintf(header->name, sizeof header->name, "%s", device.c_str());
    if (!data.empty()) {
      memcpy(buffer.data() + sizeof(dm_ioctl), data.data(), data.size());
    }
    if (ioctl(control_, request, buffer.data()) == 0) {
      return true;
    }
    fprintf(stderr, "thin_cut: %s of %s: %s\n", what.c_str(), device.c_str(), strerrordesc_np(errno));
    return false;
  }

  int control_;
};

long long Now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Options {
  std::string pool, stop_after;
  bool lockfs = true;
  std::vector<Cut> cuts;
};

Options Parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const size_t first = word.find(':');
    const size_t second = word.find(':', first + 1);
    if (word == "--nolockfs") {
      options.lockfs = false;
    } else if (word == "--stop-after" && i + 1 < arguments.size()) {
      options.stop_after = arguments[++i];
    } else if (options.pool.empty()) {
      options.pool = word;
    } else if (second != std::string::npos) {
      options.cuts.push_back(
          {word.substr(0, first), word.substr(first + 1, second - first - 1), word.substr(second + 1)});
    } else {
      fprintf(stderr, "thin_cut: what is %s?\n", word.c_str());
      exit(2);  // NOLINT(concurrency-mt-unsafe): the only thread
    }
  }
  return options;
}

bool ResumeAll(const Mapper& mapper, const std::vector<std::string>& suspended) {
  bool good = true;
  for (const std::string& device : suspended) {
    good = mapper.Resume(device) && good;
  }
  return good;
}

int Run(const Options& options) {
  const Mapper mapper;
  mlockall(MCL_CURRENT | MCL_FUTURE);
  const long long begin = Now();
  for (const Cut& cut : options.cuts) {
    if (!mapper.Message(options.pool, "delete " + cut.new_id)) {
      return 1;
    }
  }
  if (options.stop_after == "delete") {
    return 0;
  }
  bool good = true;
  const long long deleted = Now();
  std::vector<std::string> suspended;
  for (const Cut& cut : options.cuts) {
    if (good && cut.origin != "-") {
      good = mapper.Suspend(cut.origin, options.lockfs);
      if (good) {
        suspended.push_back(cut.origin);
      }
    }
  }
  const long long stopped = Now();
  if (options.stop_after == "suspend") {
    return 0;
  }
  for (const Cut& cut : options.cuts) {
    good = good && mapper.Message(options.pool, "create_snap " + cut.new_id + " " + cut.origin_id);
  }
  const long long created = Now();
  if (options.stop_after == "create") {
    return 0;
  }
  good = ResumeAll(mapper, suspended) && good;
  const long long resumed = Now();
  printf("n=%zu delete=%lld suspend=%lld create_snap=%lld resume=%lld stall=%lld\n", options.cuts.size(),
         deleted - begin, stopped - deleted, created - stopped, resumed - created, resumed - deleted);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(Parse({argv + 1, argv + argc}));
}
