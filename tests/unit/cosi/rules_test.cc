// The check of COSI's rules is worth something only if it notices a driver that breaks one. Each rule is
// broken in turn, in each version that has it.
#include <algorithm>
#include <set>

#include <cosi/v1alpha1/cosi.pb.h>
#include <cosi/v1alpha2/cosi.pb.h>
#include <gmock/gmock.h>

#include "tests/cosi/breaking_proxy.h"
#include "tests/cosi/rules.h"
#include "tests/unit/cosi/cosi_harness.h"

namespace quarry::cosi {
namespace {

namespace older = ::cosi::v1alpha1;
namespace newer = ::sigs::k8s::io::cosi::v1alpha2;
using cosi_check::Spoil;
using google::protobuf::Message;
using grpc::Status;
using grpc::StatusCode;

struct Breach {
  const char* rule;  // that notices it
  Spoil older = {}, newer = {};
};

bool Is(const Message& message, const std::string& method) {
  return message.GetDescriptor()->name() == method + "Request";
}

// Changes the answer to a call that succeeded.
template <typename Response>
Spoil Change(const std::function<void(Response&)>& change) {
  return [change](const Message&, Message& response, const Status& status) {
    if (auto* const mine = dynamic_cast<Response*>(&response); mine != nullptr && status.ok()) {
      change(*mine);
    }
    return status;
  };
}

// Turns `from` into `to` in the answers of one method.
Spoil Recode(const std::string& method, StatusCode from, StatusCode to) {
  return [=](const Message& request, Message&, const Status& status) {
    return Is(request, method) && status.error_code() == from
               ? Status(to, to == StatusCode::OK ? "" : "recoded")
               : status;
  };
}

// Accepts an invalid request of this shape, as if nothing were wrong.
template <typename Request>
Spoil Accept(const std::function<bool(const Request&)>& shape) {
  return [shape](const Message& request, Message&, const Status& status) {
    const auto* const mine = dynamic_cast<const Request*>(&request);
    return mine != nullptr && shape(*mine) ? Status::OK : status;
  };
}

template <typename Request>
Spoil Refuse(const std::function<bool(const Request&)>& shape) {
  return [shape](const Message& request, Message&, const Status& status) {
    const auto* const mine = dynamic_cast<const Request*>(&request);
    return mine != nullptr && shape(*mine) ? Status(StatusCode::NOT_FOUND, "refused") : status;
  };
}

// Refuses each request that was seen before.
Spoil RefuseRepetition(const std::string& method) {
  return [method, seen = std::make_shared<std::set<std::string>>()](const Message& request, Message&,
                                                                    const Status& status) {
    const bool again = Is(request, method) && !seen->insert(request.SerializeAsString()).second;
    return again ? Status(StatusCode::NOT_FOUND, "gone") : status;
  };
}

template <typename Response>
Spoil CountUp(const std::function<void(Response&, int)>& change) {
  return Change<Response>([change, n = std::make_shared<int>(0)](Response& r) { change(r, ++*n); });
}

std::vector<Breach> IdentityBreaches() {
  using OldInfo = older::DriverGetInfoResponse;
  using NewInfo = newer::DriverGetInfoResponse;
  return {
      {"identity.name", Change<OldInfo>([](auto& r) { r.set_name("1.a"); }),
       Change<NewInfo>([](auto& r) { r.set_name("a.b-"); })},
      {"identity.name", Change<OldInfo>([](auto& r) { r.set_name(std::string(64, 'a')); }),
       Change<NewInfo>([](auto& r) { r.set_name("Quarry"); })},
      {"identity.protocols", {}, Change<NewInfo>([](auto& r) { r.clear_supported_protocols(); })},
      {"identity.protocols", {}, Change<NewInfo>([](auto& r) {
         *r.add_supported_protocols() = r.supported_protocols(0);
       })},
      {"identity.protocols", {}, Change<NewInfo>([](auto& r) { r.add_supported_protocols(); })},
  };
}

std::vector<Breach> CreateBreaches() {
  using Old = older::DriverCreateBucketRequest;
  using New = newer::DriverCreateBucketRequest;
  using OldMade = older::DriverCreateBucketResponse;
  using NewMade = newer::DriverCreateBucketResponse;
  const auto both = [](const char* rule, const auto& shape) {
    return Breach{rule, Accept<Old>(shape), Accept<New>(shape)};
  };
  const auto is_smaller = [](const auto& r) {
    const auto size = r.parameters().find("size");
    return size != r.parameters().end() && size->second == "512MiB";
  };
  return {
      {"create.answer", Change<OldMade>([](auto& r) { r.set_bucket_id("a b"); }),
       Change<NewMade>([](auto& r) { r.clear_bucket_id(); })},
      {"create.protocol", Change<OldMade>([](auto& r) { r.mutable_bucket_info()->mutable_gcs(); }),
       Change<NewMade>([](auto& r) { r.mutable_protocols()->mutable_azure(); })},
      {"create.protocol", Change<OldMade>([](auto& r) { r.clear_bucket_info(); }),
       Change<NewMade>([](auto& r) { r.clear_protocols(); })},
      {"create.repeats", CountUp<OldMade>([](auto& r, int n) { r.set_bucket_id("b" + std::to_string(n)); }),
       RefuseRepetition("DriverCreateBucket")},
      {"create.keeps_name", Recode("DriverCreateBucket", StatusCode::ALREADY_EXISTS, StatusCode::OK),
       Recode("DriverCreateBucket", StatusCode::ALREADY_EXISTS, StatusCode::INTERNAL)},
      {"create.keeps_size", Accept<Old>(is_smaller), Accept<New>(is_smaller)},
      both("create.needs_name", [](const auto& r) { return r.name().empty(); }),
      both("create.checks_name", [](const auto& r) { return r.name() == "Not_A_Name"; }),
      both("create.checks_parameters",
           [](const auto& r) { return r.parameters().contains("no-such-parameter"); }),
      both("create.limits_maps", [](const auto& r) { return r.parameters().size() > 40; }),
      both("create.limits_names", [](const auto& r) { return r.name().size() > 253; }),
      {"create.takes_long_names", Refuse<Old>([](const auto& r) { return r.name().size() == 43; }),
       Refuse<New>([](const auto& r) { return r.name().size() == 43; })},
      {"create.checks_protocol", {}, Accept<New>([](const auto& r) { return r.protocols_size() == 2; })},
      {"create.checks_unknown_protocol", {}, Accept<New>([](const auto& r) {
         return r.protocols_size() == 1 && r.protocols(0).type() == newer::ObjectProtocol::UNKNOWN;
       })},
  };
}

std::vector<Breach> ExistingBreaches() {
  using Request = newer::DriverGetExistingBucketRequest;
  return {
      {"existing.answer", {}, Change<newer::DriverGetExistingBucketResponse>([](auto& r) {
         r.set_bucket_id("another");
       })},
      {"existing.unknown",
       {},
       Recode("DriverGetExistingBucket", StatusCode::NOT_FOUND, StatusCode::INTERNAL)},
      {"existing.needs_id", {}, Accept<Request>([](const auto& r) {
         return r.existing_bucket_id().empty();
       })},
      {"existing.checks_protocol", {}, Accept<Request>([](const auto& r) {
         return r.protocols_size() > 0 && r.protocols(0).type() == newer::ObjectProtocol::AZURE;
       })},
      {"existing.takes_parameters", {}, Refuse<Request>([](const auto& r) {
         return !r.parameters().empty();
       })},
      {"existing.checks_parameters", {}, Accept<Request>([](const auto& r) {
         return r.parameters().contains("no-such-parameter");
       })},
      {"existing.compares_parameters", {}, Accept<Request>([](const auto& r) {
         return r.parameters().contains("size") && r.parameters().at("size") == "512MiB";
       })},
      {"existing.compares_parameters", {}, Accept<Request>([](const auto& r) {
         return r.parameters().contains("size") && r.parameters().at("size") == "2GiB";
       })},
  };
}

std::vector<Breach> GrantAnswerBreaches() {
  using Old = older::DriverGrantBucketAccessResponse;
  using New = newer::DriverGrantBucketAccessResponse;
  return {
      {"grant.answer", Change<Old>([](auto& r) { r.clear_account_id(); }),
       Change<New>([](auto& r) { r.mutable_credentials()->mutable_gcs(); })},
      {"grant.answer", Change<Old>([](auto& r) { (*r.mutable_credentials())["azure"]; }),
       Change<New>([](auto& r) { r.mutable_credentials()->mutable_s3()->clear_access_secret_key(); })},
      {"grant.answer", Change<Old>([](auto& r) {
         (*(*r.mutable_credentials())["s3"].mutable_secrets()).erase("accessKeyID");
       }),
       Change<New>([](auto& r) { r.set_account_id("a/b"); })},
      {"grant.buckets",
       Change<Old>([](auto& r) { (*(*r.mutable_credentials())["s3"].mutable_secrets()).erase("endpoint"); }),
       Change<New>([](auto& r) { r.clear_buckets(); })},
      {"grant.buckets",
       Change<Old>([](auto& r) { (*(*r.mutable_credentials())["s3"].mutable_secrets()).erase("region"); }),
       Change<New>([](auto& r) {
         for (auto& bucket : *r.mutable_buckets()) {
           bucket.mutable_bucket_info()->mutable_s3()->clear_addressing_style();
         }
       })},
      {"grant.repeats", RefuseRepetition("DriverGrantBucketAccess"), CountUp<New>([](auto& r, int n) {
         r.mutable_credentials()->mutable_s3()->set_access_secret_key("key" + std::to_string(n));
       })},
      {"grant.keeps_name", Recode("DriverGrantBucketAccess", StatusCode::ALREADY_EXISTS, StatusCode::OK),
       Recode("DriverGrantBucketAccess", StatusCode::ALREADY_EXISTS, StatusCode::INTERNAL)},
      {"grant.accounts_differ", Change<Old>([](auto& r) {
         (*(*r.mutable_credentials())["s3"].mutable_secrets())["accessSecretKey"] = "k";
       }),
       Change<New>([](auto& r) { r.set_account_id("everybody"); })},
  };
}

std::vector<Breach> GrantRequestBreaches() {
  using Old = older::DriverGrantBucketAccessRequest;
  using New = newer::DriverGrantBucketAccessRequest;
  return {
      {"grant.needs_name", Accept<Old>([](const auto& r) { return r.name().empty(); }),
       Accept<New>([](const auto& r) { return r.account_name().empty(); })},
      {"grant.needs_bucket", Accept<Old>([](const auto& r) { return r.bucket_id().empty(); }),
       Accept<New>([](const auto& r) { return r.buckets().empty(); })},
      {"grant.needs_authentication", Accept<Old>([](const auto& r) { return r.authentication_type() == 0; }),
       Accept<New>([](const auto& r) { return r.authentication_type().type() == 0; })},
      {"grant.checks_authentication",
       Accept<Old>([](const auto& r) { return r.authentication_type() == older::IAM; }),
       Accept<New>([](const auto& r) { return r.authentication_type().type() == 2; })},
      {"grant.checks_parameters",
       Accept<Old>([](const auto& r) { return r.parameters().contains("no-such"); }),
       Accept<New>([](const auto& r) { return r.parameters().contains("no-such"); })},
      {"grant.limits_maps", Accept<Old>([](const auto& r) { return r.parameters().size() > 40; }),
       Accept<New>([](const auto& r) { return r.parameters().size() > 40; })},
      {"grant.limits_names", Accept<Old>([](const auto& r) { return r.name().size() > 128; }),
       Accept<New>([](const auto& r) { return r.account_name().size() > 128; })},
      {"grant.takes_long_names", Refuse<Old>([](const auto& r) { return r.name().size() == 39; }),
       Refuse<New>([](const auto& r) { return r.account_name().size() == 39; })},
      {"grant.needs_protocol", {}, Accept<New>([](const auto& r) { return r.protocol().type() == 0; })},
      {"grant.checks_protocol", {}, Accept<New>([](const auto& r) { return r.protocol().type() == 2; })},
      {"grant.needs_mode", {}, Accept<New>([](const auto& r) {
         return r.buckets_size() > 0 && r.buckets(0).access_mode().mode() == 0;
       })},
      {"grant.several_buckets", {}, Refuse<New>([](const auto& r) { return r.buckets_size() > 1; })},
      {"grant.several_buckets", {}, Change<newer::DriverGrantBucketAccessResponse>([](auto& r) {
         if (r.buckets_size() > 1) {
           r.mutable_buckets()->RemoveLast();
         }
       })},
      {"grant.unknown_bucket", Accept<Old>([](const auto& r) { return r.bucket_id() == "no-such-bucket"; }),
       Accept<New>([](const auto& r) {
         return r.buckets_size() > 0 && r.buckets(0).bucket_id() == "no-such-bucket";
       })},
  };
}

std::vector<Breach> RevokeAndDeleteBreaches() {
  using Old = older::DriverRevokeBucketAccessRequest;
  using New = newer::DriverRevokeBucketAccessRequest;
  return {
      {"revoke.repeats", RefuseRepetition("DriverRevokeBucketAccess"),
       RefuseRepetition("DriverRevokeBucketAccess")},
      {"revoke.unknown_account",
       Refuse<Old>([](const auto& r) { return r.account_id() == "no-such-account"; }),
       Refuse<New>([](const auto& r) { return r.account_id() == "no-such-account"; })},
      {"revoke.unknown_bucket", Refuse<Old>([](const auto& r) { return r.bucket_id() == "no-such-bucket"; }),
       Refuse<New>([](const auto& r) {
         return r.buckets_size() > 0 && r.buckets(0).bucket_id() == "no-such-bucket";
       })},
      {"revoke.needs_bucket", Accept<Old>([](const auto& r) { return r.bucket_id().empty(); }),
       Accept<New>([](const auto& r) { return r.buckets().empty(); })},
      {"revoke.needs_account", Accept<Old>([](const auto& r) { return r.account_id().empty(); }),
       Accept<New>([](const auto& r) { return r.account_id().empty(); })},
      {"delete.repeats", RefuseRepetition("DriverDeleteBucket"), RefuseRepetition("DriverDeleteBucket")},
      {"delete.unknown", Refuse<older::DriverDeleteBucketRequest>([](const auto& r) {
         return r.bucket_id() == "no-such-bucket";
       }),
       Refuse<newer::DriverDeleteBucketRequest>(
           [](const auto& r) { return r.bucket_id() == "no-such-bucket"; })},
      {"delete.needs_id",
       Accept<older::DriverDeleteBucketRequest>([](const auto& r) { return r.bucket_id().empty(); }),
       Accept<newer::DriverDeleteBucketRequest>([](const auto& r) { return r.bucket_id().empty(); })},
  };
}

std::vector<Breach> StatusBreaches() {
  const auto any = [](const char* rule, const auto& change) {
    const Spoil spoil = [change](const Message&, Message&, const Status& status) {
      return status.ok() ? status : change(status);
    };
    return Breach{rule, spoil, spoil};
  };
  // A driver that repeats in its errors the last secret that it gave.
  const auto telling = [](const Message&, Message& response, const Status& status) {
    static std::string secret;
    if (const auto* old = dynamic_cast<older::DriverGrantBucketAccessResponse*>(&response);
        old != nullptr && status.ok()) {
      secret = old->credentials().at("s3").secrets().at("accessSecretKey");
    }
    if (const auto* granted = dynamic_cast<newer::DriverGrantBucketAccessResponse*>(&response);
        granted != nullptr && status.ok()) {
      secret = granted->credentials().s3().access_secret_key();
    }
    return status.ok() ? status : Status(status.error_code(), "refused, key " + secret);
  };
  return {
      any("status.has_message", [](const Status& s) { return Status(s.error_code(), ""); }),
      any("status.has_no_details", [](const Status& s) { return Status(s.error_code(), "text", "details"); }),
      {"status.tells_no_secret", telling, telling},
  };
}

std::vector<Breach> Breaches() {
  std::vector<Breach> all;
  for (const auto& some : {IdentityBreaches(), CreateBreaches(), ExistingBreaches(), GrantAnswerBreaches(),
                           GrantRequestBreaches(), RevokeAndDeleteBreaches(), StatusBreaches()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

const cosi_check::Settings kSettings{.parameters = {{"size", "1GiB"}},
                                     .other_parameters = {{"size", "2GiB"}},
                                     .smaller_parameters = {{"size", "512MiB"}},
                                     .prefix = "check-"};

std::set<std::string> BrokenRules(cosi_check::Driver& driver) {
  std::set<std::string> broken;
  for (const auto& finding : CheckRules(driver, kSettings)) {
    if (!finding.problem.empty()) {
      broken.insert(finding.rule);
    }
  }
  return broken;
}

TEST(CosiRulesTest, EveryBrokenRuleIsNoticed) {
  for (const Breach& breach : Breaches()) {
    for (const bool is_newer : {false, true}) {
      const Spoil& spoil = is_newer ? breach.newer : breach.older;
      if (!spoil) {
        continue;
      }
      CosiHarness harness;
      cosi_check::BreakingProxy proxy(harness.channel);
      proxy.SetSpoil(spoil);
      const auto driver =
          is_newer ? cosi_check::MakeV1alpha2(proxy.channel()) : cosi_check::MakeV1alpha1(proxy.channel());
      EXPECT_TRUE(BrokenRules(*driver).contains(breach.rule)) << driver->version() << " " << breach.rule;
    }
  }
}

TEST(CosiRulesTest, EachRuleHasADriverThatBreaksIt) {
  for (const bool is_newer : {false, true}) {
    std::set<std::string> broken, rules;
    for (const Breach& breach : Breaches()) {
      if (is_newer ? breach.newer != nullptr : breach.older != nullptr) {
        broken.insert(breach.rule);
      }
    }
    const CosiHarness harness;
    const auto driver =
        is_newer ? cosi_check::MakeV1alpha2(harness.channel) : cosi_check::MakeV1alpha1(harness.channel);
    for (const auto& finding : CheckRules(*driver, kSettings)) {
      rules.insert(finding.rule);
    }
    EXPECT_EQ(broken, rules);
  }
}

TEST(CosiRulesTest, ADriverThatPassesEverythingOnIsNotBlamed) {
  CosiHarness harness;
  cosi_check::BreakingProxy proxy(harness.channel);
  EXPECT_TRUE(BrokenRules(*cosi_check::MakeV1alpha1(proxy.channel())).empty());
  EXPECT_TRUE(BrokenRules(*cosi_check::MakeV1alpha2(proxy.channel())).empty());
}

}  // namespace
}  // namespace quarry::cosi
