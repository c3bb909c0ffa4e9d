#include "lvm/fresh/header_pv_reader.h"

#include "lvm/read/metadata_text.h"

namespace quarry::lvm {
namespace {

PvFacts::Kind KindOf(PvState::Kind kind) {
  switch (kind) {
    case PvState::Kind::kPv:
      return PvFacts::Kind::kPv;
    case PvState::Kind::kNoPv:
      return PvFacts::Kind::kNoPv;
    case PvState::Kind::kDamaged:
      return PvFacts::Kind::kDamaged;
    case PvState::Kind::kSilent:
      return PvFacts::Kind::kSilent;
    case PvState::Kind::kAbsent:
    case PvState::Kind::kUnreadable:
      return PvFacts::Kind::kUnreadable;
  }
  return PvFacts::Kind::kUnreadable;
}

}  // namespace

Result<std::vector<PvFacts>> HeaderPvReader::ReadPvs(const std::vector<std::string>& devices,
                                                     const Call& call) {
  QUARRY_ASSIGN(const std::vector<PvState> states, headers_.Read(devices, call));
  std::vector<PvFacts> out;
  for (size_t i = 0; i < states.size(); ++i) {
    PvFacts& facts = out.emplace_back();
    facts.kind = KindOf(states[i].kind);
    if (facts.kind == PvFacts::Kind::kPv) {
      facts.uuid = states[i].uuid;
      FindGroup(devices[i], states[i], call, facts);
    }
  }
  QUARRY_TRY(call.Check("reading labels"));
  return out;
}

// If the text cannot be read, the group stays unknown. The important fact is that the disk is a PV.
void HeaderPvReader::FindGroup(const std::string& device, const PvState& state, const Call& call,
                               PvFacts& facts) {
  for (const AreaState& area : state.areas) {
    if (area.damaged || area.ignored || !area.committed.has_value()) {
      continue;
    }
    const auto text = headers_.ReadText(device, area.area, *area.committed, call);
    const auto group = text.has_value() ? ParseGroupMembers(*text) : Result<GroupMembers>(text.error());
    if (group.has_value()) {
      facts.group = group->name;
      facts.group_uuid = group->uuid;
      return;
    }
  }
}

}  // namespace quarry::lvm
