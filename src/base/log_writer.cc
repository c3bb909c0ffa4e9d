#include "base/log_writer.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <string_view>
#include <thread>

#include "base/mutex.h"

namespace quarry {
namespace {

constexpr std::chrono::milliseconds kLastWords{1000};
constexpr std::chrono::milliseconds kMoment{10};

// False: the log does not accept this text.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {  // a process that shares the file set O_NONBLOCK
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

// Shared with the thread, which may outlive the writer.
struct LogWriter::State {
  int fd;
  std::function<std::string(uint64_t lost)> notice;
  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  size_t waiting ABSL_GUARDED_BY(mutex) = 0;   // bytes of `lines`
  uint64_t taken ABSL_GUARDED_BY(mutex) = 0;   // all lines ever queued
  uint64_t done ABSL_GUARDED_BY(mutex) = 0;    // of these, the lines that were written or failed
  bool behind ABSL_GUARDED_BY(mutex) = false;  // a caller has waited in vain
  bool ending ABSL_GUARDED_BY(mutex) = false;
  uint64_t lost ABSL_GUARDED_BY(mutex) = 0;
  uint64_t told ABSL_GUARDED_BY(mutex) = 0;  // of `lost`, the lines that a written notice counted

  void Run() {
    MutexLock lock(mutex);
    for (;;) {
      changed.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !lines.empty() || ending; });
      if (lines.empty()) {
        return;
      }
      const std::string line = std::move(lines.front());
      lines.pop_front();
      waiting -= line.size();
      lost += Put(line) ? 0 : 1;
      ++done;
      // The notice comes after all queued lines: lines that found no place in the queue came after them.
      if (lines.empty() && lost != told) {
        const uint64_t now = lost;
        const std::string words = notice(now - told);
        if (Put(words)) {
          told = now;
        }
      }
      behind = behind && !lines.empty();
      changed.notify_all();
    }
  }

  // Writes without the mutex.
  bool Put(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    mutex.unlock();
    const bool written = WriteAll(fd, line);
    mutex.lock();
    return written;
  }
};

LogWriter::LogWriter(int fd, std::function<std::string(uint64_t lost)> notice)
    : state_(std::make_shared<State>()) {
  state_->fd = fd;
  state_->notice = std::move(notice);
  // The thread blocks all signals. With SIGPIPE blocked, a write to a closed log only fails.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { state->Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  {
    const MutexLock lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  Flush(kLastWords);
}

void LogWriter::Write(std::string line) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  // After a line was lost, later lines are lost too until the queue is empty and the notice is due, so that
  // the notice stands where the lines are missing.
  if (state.waiting + line.size() > kMostWaiting || (state.lost != state.told && !state.lines.empty())) {
    ++state.lost;
    return;
  }
  state.waiting += line.size();
  state.lines.push_back(std::move(line));
  const uint64_t number = ++state.taken;
  state.changed.notify_all();
  if (!state.behind &&
      !state.changed.wait_for(
          lock, kMoment, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { return state.done >= number; })) {
    state.behind = true;
  }
}

bool LogWriter::Flush(std::chrono::milliseconds limit) {
  MutexLock lock(state_->mutex);
  return state_->changed.wait_for(
      lock, limit, [this, number = state_->taken]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
        return state_->done >= number;
      });
}

uint64_t LogWriter::lost() const {
  const MutexLock lock(state_->mutex);
  return state_->lost;
}

}  // namespace quarry
