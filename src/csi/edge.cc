#include "csi/edge.h"

#include <exception>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include "base/call_record.h"
#include "csi/trace_context.h"

namespace quarry::csi {
namespace {

// gRPC carries the message in the trailers. Clients accept 8 KiB of trailers by default.
constexpr size_t kMaxMessage = 2000;

SteadyTime SteadyDeadline(std::chrono::system_clock::time_point deadline,
                          std::chrono::milliseconds longest_call) {
  const auto now = std::chrono::system_clock::now();
  const auto longest = std::chrono::duration_cast<std::chrono::system_clock::duration>(longest_call);
  // Points in time are compared, not differences. Without a deadline, gRPC reports the last time that the
  // clock can show, and its difference from now would overflow.
  const auto left = deadline > now + longest ? longest : deadline - now;
  return std::chrono::steady_clock::now() + left;
}

std::string Clip(std::string_view text, size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) {
    --limit;  // not in the middle of a character
  }
  return std::string(text.substr(0, limit)) + "…";
}

Status RunBody(const google::protobuf::Message& request, const std::function<Status(Rpc&)>& body, Rpc& rpc,
               TextLimit longest) {
  try {
    QUARRY_TRY(CheckLimits(request, longest));
    return body(rpc);
  } catch (const std::exception& error) {
    return Error(Code::kInternal, fmt::format("unexpected failure: {}", error.what()));
  } catch (...) {
    return Error(Code::kInternal, "unexpected failure of an unknown kind");
  }
}

// The service that has the method, from the file of the request's message. In each CSI version a method name
// occurs in one service only.
std::string_view ServiceOf(const google::protobuf::Message& request, std::string_view method) {
  const google::protobuf::FileDescriptor* file = request.GetDescriptor()->file();
  for (int i = 0; i < file->service_count(); ++i) {
    if (file->service(i)->FindMethodByName(std::string(method)) != nullptr) {
      return file->service(i)->full_name();
    }
  }
  return file->package();
}

// The caller's trace id, or a new one.
std::string TraceIdOf(const grpc::ServerContext& context) {
  const auto said = context.client_metadata().find(kTraceParent);
  const auto id = said == context.client_metadata().end()
                      ? std::nullopt
                      : ParseTraceParent({said->second.data(), said->second.size()});
  return id.has_value() ? *id : NewTraceId();
}

LogLevel LevelOf(const RpcName& name, const Status& outcome) {
  if (outcome.has_value()) {
    return name.changes_things ? LogLevel::kInfo : LogLevel::kDebug;
  }
  switch (outcome.error().code()) {
    case Code::kCorrupt:
    case Code::kIo:
    case Code::kInternal:
      return LogLevel::kError;
    default:
      return LogLevel::kWarning;
  }
}

}  // namespace

grpc::Status Edge::Serve(const RpcName& name, const grpc::ServerContext& context,
                         const google::protobuf::Message& request, std::string_view volume,
                         const std::function<Status(Rpc&)>& body) {
  const auto start = std::chrono::steady_clock::now();
  const SteadyTime deadline = SteadyDeadline(context.deadline(), dialect_.longest_call);
  const CancelWatch::Watched watched(watch_, [&context, deadline, streams = name.streams] {
    if (streams && std::chrono::steady_clock::now() > deadline) {
      context.TryCancel();
    }
    return context.IsCancelled();
  });
  const auto record = std::make_shared<CallRecord>(TraceIdOf(context));
  const LogTrace trace(record->id());
  Rpc rpc{.call = {deadline, watched.token(), dialect_.patient, record},
          .volume = Clip(volume, kMaxText),
          .note = ""};
  CallFacts facts{.record = record,
                  .method = std::string(name.method),
                  .version = std::string(dialect_.version),
                  .volume = rpc.volume,
                  .began = std::chrono::system_clock::now(),
                  .code = ""};
  history_.Begin(facts);

  const Status outcome = RunBody(request, body, rpc, dialect_.longest);
  const auto took = std::chrono::steady_clock::now() - start;
  facts.took = took;
  facts.volume = rpc.volume;
  facts.code = outcome.has_value() ? "ok" : CodeName(outcome.error().code());
  history_.End(facts, name.changes_things || !outcome.has_value());
  LogOutcome(name, rpc, dialect_.caller ? dialect_.caller(context.peer()) : "", outcome, took);
  const grpc::StatusCode code =
      outcome.has_value() ? grpc::StatusCode::OK : dialect_.codes(outcome.error().code());
  if (observe_) {
    observe_({ServiceOf(request, name.method), name.method, code, took});
  }
  return outcome.has_value() ? grpc::Status::OK
                             : grpc::Status(code, Clip(outcome.error().message(), kMaxMessage));
}

void Edge::LogOutcome(const RpcName& name, const Rpc& rpc, const std::string& caller, const Status& outcome,
                      std::chrono::steady_clock::duration took) const {
  const LogLevel level = LevelOf(name, outcome);
  const std::string_view code = outcome.has_value() ? "ok" : CodeName(outcome.error().code());
  const std::string_view detail = outcome.has_value() ? rpc.note : outcome.error().message();
  const double milliseconds = std::chrono::duration<double, std::milli>(took).count();
  if (!caller.empty()) {
    log_.Log(level, "rpc",
             {{"method", name.method},
              {"volume", rpc.volume},
              {"code", code},
              {"ms", milliseconds},
              {"csi", dialect_.version},
              {"caller", caller},
              {"detail", detail}});
  } else if (detail.empty()) {
    log_.Log(level, "rpc",
             {{"method", name.method},
              {"volume", rpc.volume},
              {"code", code},
              {"ms", milliseconds},
              {"csi", dialect_.version}});
  } else {
    log_.Log(level, "rpc",
             {{"method", name.method},
              {"volume", rpc.volume},
              {"code", code},
              {"ms", milliseconds},
              {"csi", dialect_.version},
              {"detail", detail}});
  }
}

}  // namespace quarry::csi
