// The administrator's pvmoves: one at a time, in a thread of its own.
#include <fmt/format.h>

#include <chrono>

#include "tests/vm/kit/administrator.h"

namespace quarry::vm {
namespace {

constexpr auto kMoveLimit = std::chrono::seconds(120);

}  // namespace

std::set<std::string> Administrator::PlainOnesOn(const std::string& disk) const {
  std::set<std::string> plain;
  for (const auto& row : Report("lv_name,segtype,devices")) {
    if (row[1] == "linear" && row[2].starts_with(disk + "(") && own_.contains(row[0])) {
      plain.insert(row[0]);
    }
  }
  return plain;
}

void Administrator::StartMove(const std::string& from, const std::vector<std::string>& more,
                              std::set<std::string> what) {
  move_ = std::make_unique<Move>();
  move_->from = from;
  move_->what = std::move(what);
  std::vector<std::string> argv = {"pvmove", "-q", "-y", "-i", "1", "--config", kConfig};
  argv.insert(argv.end(), more.begin(), more.end());
  argv.push_back(from);
  story_.Tell("administrator: pvmove " + (more.empty() ? "" : more.back() + " ") + from + " begins");
  move_->thread = std::jthread([this, argv, move = move_.get()] {
    move->outcome = Tool(argv, kMoveLimit);
    const std::vector<std::string> words = Lines(move->outcome.out + move->outcome.err);
    story_.Tell(fmt::format("administrator: pvmove of {} ends with {}: {}", move->from, move->outcome.status,
                            words.empty() ? "" : words.back()));
    move->over = true;
  });
}

// A pvmove that began must succeed unless the administrator aborted it, and its volumes must have left the
// disk.
Status Administrator::EndOfMove() {
  if (move_ == nullptr || !move_->over) {
    return Ok();
  }
  const std::unique_ptr<Move> move = std::move(move_);
  move->thread.join();
  const bool began = move->outcome.out.find("Moved:") != std::string::npos;
  if (move->aborted || !began) {
    return Ok();
  }
  if (!move->outcome.ok()) {
    return Error(Code::kCorrupt,
                 fmt::format("the administrator's pvmove of {} was ended by another process: {}{}",
                             move->from, move->outcome.out, move->outcome.err));
  }
  for (const auto& row : Report("lv_name,devices")) {
    if (move->what.contains(row[0]) && row[1].find(move->from + "(") != std::string::npos) {
      return Error(
          Code::kCorrupt,
          fmt::format("the administrator's pvmove of {} reports success, but {} still lies there: {}",
                      move->from, row[0], move->outcome.out));
    }
  }
  return Ok();
}

void Administrator::MoveDisk(std::mt19937& random) {
  if (move_ != nullptr) {
    return;
  }
  const auto* const own = PickOwn(random, true);
  const std::string lv = own != nullptr && Pick(random, 2) == 0 ? own->first : PickOthers(random);
  std::string disk = lv.empty() ? "" : DiskOf(lv);
  disk = disk.empty() ? PickDisk(random) : disk;
  StartMove(disk, {}, PlainOnesOn(disk));
}

void Administrator::MoveByName(std::mt19937& random) {
  if (move_ != nullptr) {
    return;
  }
  const auto* const own = PickOwn(random, true);
  const std::string lv = own != nullptr && Pick(random, 2) == 0 ? own->first : PickOthers(random);
  const std::string disk = lv.empty() ? "" : DiskOf(lv);
  if (disk.empty()) {
    return;
  }
  const std::set<std::string> plain = PlainOnesOn(disk);
  StartMove(disk, {"-n", lv}, plain.contains(lv) ? std::set{lv} : std::set<std::string>());
}

void Administrator::Abort(std::mt19937& /*random*/) {
  if (move_ != nullptr) {
    move_->aborted = true;
    Run({"pvmove", "--abort", move_->from});
  }
}

}  // namespace quarry::vm
