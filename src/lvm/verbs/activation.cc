#include "lvm/verbs/activation.h"

namespace quarry::lvm {

// --poll n: no background process resumes another process's pvmove. Such a process would outlive the command,
// and commit without Quarry's lock.
Result<Words> ActivateLvs::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--poll", "n", "--"},
                       group, names);
}

Result<Words> DeactivateLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvchange", "-y", "--activate", "n"};
  AppendSeqno(out, seqno);
  Append(out, {"--", Object()});
  return out;
}

Result<Words> RefreshLvs::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--refresh", "--poll", "n", "--"}, group, names);
}

}  // namespace quarry::lvm
