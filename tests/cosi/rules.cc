#include "tests/cosi/rules.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

namespace quarry::cosi_check {
namespace {

using grpc::StatusCode;

std::string Told(const grpc::Status& status) {
  return status.ok() ? "OK"
                     : fmt::format("{} '{}'", static_cast<int>(status.error_code()), status.error_message());
}

bool IsOf(const std::string& text, size_t longest, std::string_view others) {
  return !text.empty() && text.size() <= longest && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

bool IsId(const std::string& text) {
  return IsOf(text, 2048, "-.");
}

// The general limit of a text.
bool Fits(const std::string& text) {
  return !text.empty() && text.size() <= 128;
}

// A driver under check, the buckets and accounts that were made on it, and what all its errors had in common.
class Session {
 public:
  Session(Driver& driver, const Settings& settings) : driver_(driver), settings_(settings) {}

  bool newer() const { return driver_.version() == "v1alpha2"; }
  const Settings& settings() const { return settings_; }
  std::string Name(const std::string& what) const { return settings_.prefix + what; }
  // Names as long as the longest that COSI's controllers make: of "bucket-" or "ba-" and a UUID.
  std::string LongBucket() const { return OfLength(43); }
  std::string LongAccount() const { return OfLength(39); }

  grpc::Status GetInfo(Info& out) {
    return Patiently([&] { return driver_.GetInfo(out = {}); });
  }
  grpc::Status Create(const CreateWish& wish, Created& out) {
    const auto status = Patiently([&] { return driver_.Create(wish, out = {}); });
    if (status.ok() && !out.id.empty()) {
      made_.insert(out.id);
    }
    return status;
  }
  grpc::Status GetExisting(const ExistingWish& wish, Created& out) {
    return Patiently([&] { return driver_.GetExisting(wish, out = {}); });
  }
  grpc::Status Delete(const std::string& id) {
    return Patiently([&] { return driver_.Delete(id); });
  }
  grpc::Status Grant(const GrantWish& wish, Granted& out) {
    const auto status = Patiently([&] { return driver_.Grant(wish, out = {}); });
    if (!out.secret_key.empty()) {
      secrets_.insert(out.secret_key);
    }
    return status;
  }
  grpc::Status Revoke(const RevokeWish& wish) {
    return Patiently([&] { return driver_.Revoke(wish); });
  }

  // The id of the bucket that most rules share. Empty: it cannot be made.
  const std::string& Bucket() {
    Created made;
    if (bucket_.empty() && Create({.name = Name("shared"), .parameters = settings_.parameters}, made).ok()) {
      bucket_ = made.id;
    }
    return bucket_;
  }

  void DeleteAll() {
    for (const std::string& id : made_) {
      (void)Delete(id);
    }
  }

  bool silent_errors = false, details = false, told_secret = false;

 private:
  std::string OfLength(size_t length) const {
    std::string name = Name("long");
    name.resize(std::max(length, name.size()), 'x');
    return name;
  }

  grpc::Status Patiently(const std::function<grpc::Status()>& call) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (true) {
      grpc::Status status = call();
      Note(status);
      const bool passes =
          status.error_code() == StatusCode::UNAVAILABLE || status.error_code() == StatusCode::ABORTED;
      if (!passes || std::chrono::steady_clock::now() > end) {
        return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  void Note(const grpc::Status& status) {
    silent_errors = silent_errors || (!status.ok() && status.error_message().empty());
    details = details || !status.error_details().empty();
    for (const std::string& secret : secrets_) {
      told_secret = told_secret || status.error_message().find(secret) != std::string::npos;
    }
  }

  Driver& driver_;
  const Settings& settings_;
  std::string bucket_;
  std::set<std::string> made_, secrets_;
};

constexpr const char* kAboutSizes = "create.keeps_size";

struct Rule {
  const char* name;
  bool newer_only;
  std::function<std::string(Session&)> check;  // returns the problem
};

std::string Expect(const grpc::Status& status, StatusCode code, const std::string& what) {
  return status.error_code() == code
             ? ""
             : fmt::format("{}: expected code {}, got {}", what, static_cast<int>(code), Told(status));
}

std::string ExpectOk(const grpc::Status& status, const std::string& what) {
  return Expect(status, StatusCode::OK, what);
}

// A create that must be refused as invalid.
std::string RefusesCreate(Session& s, const CreateWish& wish, const std::string& what) {
  Created ignored;
  return Expect(s.Create(wish, ignored), StatusCode::INVALID_ARGUMENT, what);
}

GrantWish UsualGrant(Session& s, const std::string& account) {
  return {.name = s.Name(account), .buckets = {{.id = s.Bucket()}}};
}

std::string RefusesGrant(Session& s, const std::function<void(GrantWish&)>& spoil, const std::string& what) {
  GrantWish wish = UsualGrant(s, "refused");
  spoil(wish);
  Granted ignored;
  return Expect(s.Grant(wish, ignored), StatusCode::INVALID_ARGUMENT, what);
}

std::string CheckReach(const Reach& reach, bool complete) {
  if (!reach.s3 || !reach.others.empty()) {
    return "the answer must be about S3 and nothing else";
  }
  if (complete && (!Fits(reach.bucket) || !Fits(reach.endpoint))) {
    return "bucket and endpoint must be there, with at most 128 bytes";
  }
  return Fits(reach.region) && reach.knows_how
             ? ""
             : "region and signature version or addressing style are missing";
}

std::string DriverNameIsLabels(Session& s) {
  Info info;
  if (const std::string problem = ExpectOk(s.GetInfo(info), "DriverGetInfo"); !problem.empty()) {
    return problem;
  }
  bool good = IsOf(info.name, 63, "-.");
  for (size_t i = 0; good && i < info.name.size(); ++i) {
    const bool begins = i == 0 || info.name[i - 1] == '.';
    const bool ends = i + 1 == info.name.size() || info.name[i + 1] == '.';
    good = (!begins || (info.name[i] >= 'a' && info.name[i] <= 'z')) && (!ends || info.name[i] != '-') &&
           info.name[i] == static_cast<char>(std::tolower(info.name[i]));
  }
  return good ? "" : fmt::format("'{}' is no domain name of at most 63 characters", info.name);
}

std::string ProtocolsAreKnownAndDiffer(Session& s) {
  Info info;
  (void)s.GetInfo(info);
  const std::set<int> different(info.protocols.begin(), info.protocols.end());
  return !info.protocols.empty() && different.size() == info.protocols.size() && !different.contains(kUnknown)
             ? ""
             : "needs a protocol, none twice, and none unknown";
}

std::string CreateAnswers(Session& s) {
  Created made;
  const std::string problem =
      ExpectOk(s.Create({.name = s.Name("shared"), .parameters = s.settings().parameters}, made), "create");
  return !problem.empty() ? problem
         : !IsId(made.id) ? fmt::format("bucket_id '{}' must be of letters, digits, '-' and '.'", made.id)
                          : "";
}

std::string CreateTellsProtocol(Session& s) {
  Created made;
  (void)s.Create({.name = s.Name("shared"), .parameters = s.settings().parameters}, made);
  return CheckReach(made.reach, false);
}

std::string CreateRepeats(Session& s) {
  Created first, second;
  const CreateWish wish{.name = s.Name("shared"), .parameters = s.settings().parameters};
  (void)s.Create(wish, first);
  const std::string problem = ExpectOk(s.Create(wish, second), "a repeated create");
  return !problem.empty() ? problem : first.id == second.id ? "" : "a repeated create answers another bucket";
}

std::string CreateKeepsName(Session& s) {
  Created ignored;
  (void)s.Bucket();
  return Expect(s.Create({.name = s.Name("shared"), .parameters = s.settings().other_parameters}, ignored),
                StatusCode::ALREADY_EXISTS, "the same name with other parameters");
}

std::string CreateKeepsSize(Session& s) {
  Created ignored;
  (void)s.Bucket();
  return Expect(s.Create({.name = s.Name("shared"), .parameters = s.settings().smaller_parameters}, ignored),
                StatusCode::ALREADY_EXISTS, "the same name with a smaller size");
}

std::string CreateChecksParameters(Session& s) {
  Map parameters = s.settings().parameters;
  parameters["no-such-parameter"] = "1";
  return RefusesCreate(s, {.name = s.Name("bad"), .parameters = parameters}, "an unknown parameter");
}

// More than 4 KiB.
void Overfill(Map& map) {
  for (int i = 0; i < 50; ++i) {
    map[fmt::format("key-{}", i)] = std::string(100, 'x');
  }
}

std::string CreateLimitsMaps(Session& s) {
  Map parameters = s.settings().parameters;
  Overfill(parameters);
  return RefusesCreate(s, {.name = s.Name("long"), .parameters = parameters}, "a map of more than 4 KiB");
}

std::string CreateTakesLongNames(Session& s) {
  Created made;
  const std::string problem = ExpectOk(
      s.Create({.name = s.LongBucket(), .parameters = s.settings().parameters}, made), "a controller's name");
  (void)s.Delete(made.id);
  return problem;
}

std::string DeleteRepeats(Session& s) {
  Created made;
  (void)s.Create({.name = s.Name("deleted"), .parameters = s.settings().parameters}, made);
  const std::string problem = ExpectOk(s.Delete(made.id), "delete");
  return !problem.empty() ? problem : ExpectOk(s.Delete(made.id), "a repeated delete");
}

std::string GrantAnswers(Session& s) {
  Granted granted;
  if (const auto problem = ExpectOk(s.Grant(UsualGrant(s, "user"), granted), "grant"); !problem.empty()) {
    return problem;
  }
  return !IsId(granted.account) ? fmt::format("account_id '{}' is no id", granted.account)
         : granted.kinds != std::vector<std::string>{"s3"} ? "the credentials must be those of S3 alone"
         : !Fits(granted.access_key) || !Fits(granted.secret_key)
             ? "both keys must be there, with at most 128 bytes"
             : "";
}

std::string GrantTakesLongNames(Session& s) {
  GrantWish wish = UsualGrant(s, "long");
  wish.name = s.LongAccount();
  Granted granted;
  const std::string problem = ExpectOk(s.Grant(wish, granted), "a controller's name");
  (void)s.Revoke({.account = granted.account, .buckets = {s.Bucket()}});
  return problem;
}

std::string GrantTellsBuckets(Session& s) {
  Granted granted;
  (void)s.Grant(UsualGrant(s, "user"), granted);
  if (granted.buckets.size() != 1 || !granted.buckets.contains(s.Bucket())) {
    return "the answer must have each bucket of the request, and no other";
  }
  return CheckReach(granted.buckets[s.Bucket()], true);
}

std::string GrantRepeats(Session& s) {
  Granted first, second;
  (void)s.Grant(UsualGrant(s, "user"), first);
  const std::string problem = ExpectOk(s.Grant(UsualGrant(s, "user"), second), "a repeated grant");
  return !problem.empty() ? problem
         : first.account != second.account || first.secret_key != second.secret_key
             ? "a repeated grant answers other keys"
             : "";
}

std::string GrantKeepsName(Session& s) {
  Granted ignored;
  (void)s.Grant(UsualGrant(s, "user"), ignored);
  GrantWish other = UsualGrant(s, "user");
  other.buckets[0].mode = kReadOnly;
  return Expect(s.Grant(other, ignored), StatusCode::ALREADY_EXISTS, "the same account with another access");
}

std::string AccountsDiffer(Session& s) {
  Granted one, two;
  (void)s.Grant(UsualGrant(s, "user"), one);
  (void)s.Grant(UsualGrant(s, "user2"), two);
  (void)s.Revoke({.account = two.account, .buckets = {s.Bucket()}});
  return one.account != two.account && one.secret_key != two.secret_key ? ""
                                                                        : "two accounts have the same keys";
}

std::string GrantNeedsBucketThatExists(Session& s) {
  Granted ignored;
  GrantWish wish = UsualGrant(s, "lost");
  wish.buckets[0].id = "no-such-bucket";
  return s.Grant(wish, ignored).ok() ? "access to a bucket that does not exist was granted" : "";
}

std::string GrantTakesSeveralBuckets(Session& s) {
  Created made;
  (void)s.Create({.name = s.Name("second"), .parameters = s.settings().parameters}, made);
  GrantWish wish = UsualGrant(s, "several");
  wish.buckets.push_back({.id = made.id});
  Granted granted;
  const grpc::Status status = s.Grant(wish, granted);
  (void)s.Revoke({.account = granted.account, .buckets = {s.Bucket(), made.id}});
  (void)s.Delete(made.id);
  if (status.error_code() == StatusCode::OUT_OF_RANGE) {
    return "";  // such a driver is allowed, and says it so
  }
  const std::string problem = ExpectOk(status, "a grant of two buckets");
  return !problem.empty()              ? problem
         : granted.buckets.size() == 2 ? ""
                                       : "the answer must have both buckets of the request";
}

std::string RevokeRepeats(Session& s) {
  Granted granted;
  (void)s.Grant(UsualGrant(s, "revoked"), granted);
  const RevokeWish wish{.account = granted.account, .buckets = {s.Bucket()}};
  const std::string problem = ExpectOk(s.Revoke(wish), "revoke");
  return !problem.empty() ? problem : ExpectOk(s.Revoke(wish), "a repeated revoke");
}

std::string ExistingIsFound(Session& s) {
  Created found;
  const std::string problem = ExpectOk(s.GetExisting({.id = s.Bucket()}, found), "existing bucket");
  return !problem.empty()         ? problem
         : found.id == s.Bucket() ? CheckReach(found.reach, false)
                                  : "another bucket";
}

std::string RefusesExisting(Session& s, const ExistingWish& wish, StatusCode code) {
  Created ignored;
  return Expect(s.GetExisting(wish, ignored), code, "existing bucket");
}

std::string ExistingHasItsParameters(Session& s) {
  Created found;
  return ExpectOk(s.GetExisting({.id = s.Bucket(), .parameters = s.settings().parameters}, found),
                  "an existing bucket with the parameters that it was made with");
}

std::string ExistingChecksParameters(Session& s) {
  Map parameters = s.settings().parameters;
  parameters["no-such-parameter"] = "1";
  return RefusesExisting(s, {.id = s.Bucket(), .parameters = parameters}, StatusCode::INVALID_ARGUMENT);
}

// A driver may say of such a bucket that it is another one. Both codes are final for the sidecar.
std::string ExistingComparesParameters(Session& s) {
  for (const Map& others : {s.settings().other_parameters, s.settings().smaller_parameters}) {
    Created ignored;
    const grpc::Status status = others.empty()
                                    ? grpc::Status(StatusCode::INVALID_ARGUMENT, "")
                                    : s.GetExisting({.id = s.Bucket(), .parameters = others}, ignored);
    if (status.error_code() != StatusCode::INVALID_ARGUMENT &&
        status.error_code() != StatusCode::ALREADY_EXISTS) {
      return fmt::format("an existing bucket with other parameters: expected code 3 or 6, got {}",
                         Told(status));
    }
  }
  return "";
}

const std::vector<Rule>& Rules() {
  using S = Session;
  using W = GrantWish;
  constexpr bool kBoth = false, kNewer = true;
  static const std::vector<Rule> rules = {
      {"identity.name", kBoth, &DriverNameIsLabels},
      {"identity.protocols", kNewer, &ProtocolsAreKnownAndDiffer},
      {"create.answer", kBoth, &CreateAnswers},
      {"create.protocol", kBoth, &CreateTellsProtocol},
      {"create.repeats", kBoth, &CreateRepeats},
      {"create.keeps_name", kBoth, &CreateKeepsName},
      {kAboutSizes, kBoth, &CreateKeepsSize},
      {"create.needs_name", kBoth,
       [](S& s) { return RefusesCreate(s, {"", s.settings().parameters}, "no name"); }},
      {"create.checks_name", kBoth,
       [](S& s) { return RefusesCreate(s, {"Not_A_Name", s.settings().parameters}, "a bad name"); }},
      {"create.checks_parameters", kBoth, &CreateChecksParameters},
      {"create.limits_maps", kBoth, &CreateLimitsMaps},
      {"create.limits_names", kBoth,
       [](S& s) {
         return RefusesCreate(s, {std::string(300, 'a'), s.settings().parameters}, "a long name");
       }},
      {"create.takes_long_names", kBoth, &CreateTakesLongNames},
      {"create.checks_protocol", kNewer,
       [](S& s) {
         return RefusesCreate(s, {s.Name("azure"), s.settings().parameters, {kS3, kAzure}}, "Azure");
       }},
      {"create.checks_unknown_protocol", kNewer,
       [](S& s) {
         return RefusesCreate(s, {s.Name("none"), s.settings().parameters, {kUnknown}},
                              "an unknown protocol");
       }},
      {"existing.answer", kNewer, &ExistingIsFound},
      {"existing.unknown", kNewer,
       [](S& s) { return RefusesExisting(s, {.id = "no-such-bucket"}, StatusCode::NOT_FOUND); }},
      {"existing.needs_id", kNewer,
       [](S& s) { return RefusesExisting(s, {.id = ""}, StatusCode::INVALID_ARGUMENT); }},
      {"existing.checks_protocol", kNewer,
       [](S& s) {
         return RefusesExisting(s, {.id = s.Bucket(), .protocols = {kAzure}}, StatusCode::INVALID_ARGUMENT);
       }},
      {"existing.takes_parameters", kNewer, &ExistingHasItsParameters},
      {"existing.checks_parameters", kNewer, &ExistingChecksParameters},
      {"existing.compares_parameters", kNewer, &ExistingComparesParameters},
      {"grant.answer", kBoth, &GrantAnswers},
      {"grant.buckets", kBoth, &GrantTellsBuckets},
      {"grant.repeats", kBoth, &GrantRepeats},
      {"grant.keeps_name", kBoth, &GrantKeepsName},
      {"grant.accounts_differ", kBoth, &AccountsDiffer},
      {"grant.needs_name", kBoth, [](S& s) { return RefusesGrant(s, [](W& w) { w.name = ""; }, "no name"); }},
      {"grant.needs_bucket", kBoth,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.buckets.clear(); }, "no bucket"); }},
      {"grant.needs_authentication", kBoth,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.authentication = kUnknown; }, "no authentication"); }},
      {"grant.checks_authentication", kBoth,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.authentication = kServiceAccount; }, "not by key"); }},
      {"grant.checks_parameters", kBoth,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.parameters["no-such"] = "1"; }, "a parameter"); }},
      {"grant.limits_maps", kBoth,
       [](S& s) { return RefusesGrant(s, [](W& w) { Overfill(w.parameters); }, "a map of over 4 KiB"); }},
      {"grant.limits_names", kBoth,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.name = std::string(300, 'a'); }, "a long name"); }},
      {"grant.takes_long_names", kBoth, &GrantTakesLongNames},
      {"grant.needs_protocol", kNewer,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.protocol = kUnknown; }, "no protocol"); }},
      {"grant.checks_protocol", kNewer,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.protocol = kAzure; }, "Azure"); }},
      {"grant.needs_mode", kNewer,
       [](S& s) { return RefusesGrant(s, [](W& w) { w.buckets[0].mode = kUnknown; }, "no mode"); }},
      {"grant.several_buckets", kNewer, &GrantTakesSeveralBuckets},
      {"grant.unknown_bucket", kBoth, &GrantNeedsBucketThatExists},
      {"revoke.repeats", kBoth, &RevokeRepeats},
      {"revoke.unknown_account", kBoth,
       [](S& s) { return ExpectOk(s.Revoke({"no-such-account", {s.Bucket()}}), "an unknown account"); }},
      {"revoke.unknown_bucket", kBoth,
       [](S& s) { return ExpectOk(s.Revoke({"no-such-account", {"no-such-bucket"}}), "an unknown bucket"); }},
      {"revoke.needs_bucket", kBoth,
       [](S& s) { return Expect(s.Revoke({"account", {}}), StatusCode::INVALID_ARGUMENT, "no bucket"); }},
      {"revoke.needs_account", kBoth,
       [](S& s) { return Expect(s.Revoke({"", {s.Bucket()}}), StatusCode::INVALID_ARGUMENT, "no account"); }},
      {"delete.repeats", kBoth, &DeleteRepeats},
      {"delete.unknown", kBoth,
       [](S& s) { return ExpectOk(s.Delete("no-such-bucket"), "an unknown bucket"); }},
      {"delete.needs_id", kBoth,
       [](S& s) { return Expect(s.Delete(""), StatusCode::INVALID_ARGUMENT, "no bucket"); }},
      // Last: about all errors that came before.
      {"status.has_message", kBoth, [](S& s) { return s.silent_errors ? "an error without a message" : ""; }},
      {"status.has_no_details", kBoth, [](S& s) { return s.details ? "a status with details" : ""; }},
      {"status.tells_no_secret", kBoth, [](S& s) { return s.told_secret ? "a message with a secret" : ""; }},
  };
  return rules;
}

}  // namespace

std::vector<Finding> CheckRules(Driver& driver, const Settings& settings) {
  Session session(driver, settings);
  std::vector<Finding> findings;
  for (const Rule& rule : Rules()) {
    const bool lacks_input =
        settings.smaller_parameters.empty() && std::string_view(rule.name) == kAboutSizes;
    if ((!rule.newer_only || session.newer()) && !lacks_input) {
      findings.push_back({rule.name, rule.check(session)});
    }
  }
  session.DeleteAll();
  return findings;
}

}  // namespace quarry::cosi_check
