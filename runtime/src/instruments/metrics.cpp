// The table of metrics. TensorBoard's tags are torchtitan's where it has the metric.
#include "instruments/metrics.h"

#include <cmath>
#include <cstring>
#include <iterator>

namespace hycrt {
namespace {

constexpr MetricKind kGauge = MetricKind::kGauge, kCounter = MetricKind::kCounter;

using Step = const StepRecord&;

bool always(Step) { return true; }
bool trains(Step record) { return !record.evaluates; }
// An evaluation after a step of a training, and a run that only evaluates.
bool isBetween(Step record) { return record.batches > 0; }
bool onlyEvaluates(Step record) { return record.evaluates && record.batches == 0; }
bool isNotBetween(Step record) { return !isBetween(record); }
bool tellsMemory(Step record) { return record.residentBytes > 0; }
bool countsSamples(Step record) { return record.samplesPerSecond != 0; }
double accuracyOf(Step record) { return record.accuracy.value_or(0); }
double milliseconds(Step record) { return record.milliseconds; }
double lossOf(Step record) { return record.loss; }
double perplexityOf(Step record) { return std::exp(record.loss); }

constexpr char kHeldOutLoss[] = "Mean loss over the held-out data; with --evaluate, so far";
constexpr char kPerplexity[] = "e to that loss";
constexpr char kAccuracy[] = "The part of it that was predicted right, where the program counts that";
constexpr char kTokenRate[] = "Tokens whose loss counts a second, of the whole job";

const Metric<StepRecord> kStepMetrics[] = {
    {"step", nullptr, "hyc_step", "", 1, true, kGauge, "Steps that are over, or with --evaluate batches", always,
     [](Step r) { return static_cast<double>(r.step); }},
    {"steps", nullptr, "hyc_planned_steps", "", 1, true, kGauge, "Steps of the whole run", always,
     [](Step r) { return static_cast<double>(r.steps); }},
    {"loss", "loss_metrics/global_avg_loss", "hyc_loss", "", 1, false, kGauge,
     "Mean loss over what counts of the global batch, before the update", trains, lossOf},
    {"loss", "validation_metrics/loss", "hyc_evaluation_loss", "", 1, false, kGauge, kHeldOutLoss, onlyEvaluates,
     lossOf},
    {"perplexity", "validation_metrics/perplexity", "hyc_evaluation_perplexity", "", 1, false, kGauge, kPerplexity,
     onlyEvaluates, perplexityOf},
    {"accuracy", "validation_metrics/accuracy", "hyc_evaluation_accuracy", "", 1, false, kGauge, kAccuracy,
     [](Step r) { return onlyEvaluates(r) && r.accuracy.has_value(); }, accuracyOf},
    {"evaluate_loss", "validation_metrics/loss", "hyc_evaluation_loss", "", 1, false, kGauge, kHeldOutLoss, isBetween,
     lossOf},
    {"evaluate_perplexity", "validation_metrics/perplexity", "hyc_evaluation_perplexity", "", 1, false, kGauge,
     kPerplexity, isBetween, perplexityOf},
    {"evaluate_accuracy", "validation_metrics/accuracy", "hyc_evaluation_accuracy", "", 1, false, kGauge, kAccuracy,
     [](Step r) { return isBetween(r) && r.accuracy.has_value(); }, accuracyOf},
    {"evaluate_batches", nullptr, "hyc_evaluation_batches", "", 1, true, kGauge,
     "Global batches that the evaluation between steps was over", isBetween,
     [](Step r) { return static_cast<double>(r.batches); }},
    {"grad_norm", "grad_norm", "hyc_gradient_norm", "", 1, false, kGauge,
     "Norm of the gradients of the mean loss, before clipping", trains, [](Step r) { return r.gradNorm; }},
    {"lr", "lr", "hyc_learning_rate", "", 1, false, kGauge, "Learning rate of the step", trains,
     [](Step r) { return r.learningRate; }},
    {"momentum", "momentum", "hyc_momentum", "", 1, false, kGauge, "Momentum of the step, where it cycles",
     [](Step r) { return r.momentum.has_value(); }, [](Step r) { return r.momentum.value_or(0); }},
    {"ms", "time_metrics/end_to_end(s)", "hyc_step_duration_seconds", "ms", 1e-3, false, kGauge,
     "Time of the step, from its first micro-batch to its update", isNotBetween, milliseconds},
    {"ms", "validation_metrics/end_to_end(s)", "hyc_evaluation_duration_seconds", "ms", 1e-3, false, kGauge,
     "Time of the evaluation between steps", isBetween, milliseconds},
    {"tokens_per_s", "throughput(tps)", "hyc_tokens_per_second", "1/s", 1, false, kGauge, kTokenRate,
     [](Step r) { return isNotBetween(r) && !countsSamples(r); }, [](Step r) { return r.tokensPerSecond; }},
    {"tokens_per_s", "validation_metrics/throughput(tps)", "hyc_evaluation_tokens_per_second", "1/s", 1, false, kGauge,
     kTokenRate, [](Step r) { return isBetween(r) && !countsSamples(r); }, [](Step r) { return r.tokensPerSecond; }},
    {"samples_per_s", "throughput(samples/s)", "hyc_samples_per_second", "1/s", 1, false, kGauge,
     "In its place where samples are no sequences, as images: samples a second, of the whole job",
     [](Step r) { return isNotBetween(r) && countsSamples(r); }, [](Step r) { return r.samplesPerSecond; }},
    {"samples_per_s", "validation_metrics/throughput(samples/s)", "hyc_evaluation_samples_per_second", "1/s", 1, false,
     kGauge, "The same of the evaluation between steps", [](Step r) { return isBetween(r) && countsSamples(r); },
     [](Step r) { return r.samplesPerSecond; }},
    {"eta_s", nullptr, "hyc_remaining_seconds", "s", 1, false, kGauge, "Time left, from the mean of the last steps",
     isNotBetween, [](Step r) { return r.etaSeconds; }},
    {"exchange_ms", "time_metrics/exchange(s)", "hyc_exchange_wait_seconds", "ms", 1e-3, false, kGauge,
     "Time of the step that rank 0 waited for exchanges with other ranks: what its computation did not hide",
     [](Step r) { return r.exchangeMilliseconds >= 0; }, [](Step r) { return r.exchangeMilliseconds; }},
    {"late_ms", "time_metrics/late(s)", "hyc_late_wait_seconds", "ms", 1e-3, false, kGauge,
     "The part of it that it waited for ranks which had not come", [](Step r) { return r.lateMilliseconds >= 0; },
     [](Step r) { return r.lateMilliseconds; }},
    {"late_rank", nullptr, "hyc_late_rank", "", 1, true, kGauge, "The rank that it waited for longest of these",
     [](Step r) { return r.lateRank >= 0; }, [](Step r) { return static_cast<double>(r.lateRank); }},
    {"resident_bytes", "memory/resident(bytes)", "hyc_resident_memory_bytes", "bytes", 1, true, kGauge,
     "What rank 0 has in memory after the step, with what it shares; on CPUs", tellsMemory,
     [](Step r) { return static_cast<double>(r.residentBytes); }},
    {"planned_bytes", nullptr, "hyc_planned_memory_bytes", "bytes", 1, true, kGauge,
     "What was planned for it when compiling: arenas, and what is declared beside them", tellsMemory,
     [](Step r) { return static_cast<double>(r.plannedBytes); }},
    {"loss_scale", "loss_scale", "hyc_loss_scale", "", 1, false, kGauge,
     "What the loss of the step was multiplied by (fp16)", [](Step r) { return r.lossScale != 0; },
     [](Step r) { return r.lossScale; }},
    {"skipped", "skipped_steps", "hyc_skipped_steps", "", 1, true, kGauge,
     "Steps whose update did not happen, since their gradients overflowed", [](Step r) { return r.lossScale != 0; },
     [](Step r) { return static_cast<double>(r.skipped); }},
    {"size", "size", "hyc_step_size", "", 1, true, kGauge,
     "Size of the dimension that the step was run at, where the programs have several (--dim seq=128,256)",
     [](Step r) { return r.size > 0; }, [](Step r) { return static_cast<double>(r.size); }},
};

using Totals = const RunTotals&;
bool alwaysIn(Totals) { return true; }

const Metric<RunTotals> kTotalMetrics[] = {
    {nullptr, nullptr, "hyc_steps_total", "", 1, true, kCounter, "Steps since hyc-run began, also those done again",
     alwaysIn, [](Totals t) { return static_cast<double>(t.steps); }},
    {nullptr, nullptr, "hyc_step_seconds_total", "s", 1, false, kCounter, "Time of these steps", alwaysIn,
     [](Totals t) { return t.stepSeconds; }},
    {nullptr, nullptr, "hyc_last_step_timestamp_seconds", "s", 1, false, kGauge,
     "When the last step was over, since 1970: a run that stands still falls behind time()",
     [](Totals t) { return t.steps > 0; }, [](Totals t) { return t.lastStepTime; }},
    {nullptr, nullptr, "hyc_checkpoints_total", "", 1, true, kCounter, "Checkpoints that were written", alwaysIn,
     [](Totals t) { return static_cast<double>(t.checkpoints); }},
    {nullptr, nullptr, "hyc_checkpoint_failures_total", "", 1, true, kCounter, "Checkpoints that could not be written",
     alwaysIn, [](Totals t) { return static_cast<double>(t.failedCheckpoints); }},
    {nullptr, nullptr, "hyc_checkpoint_seconds_total", "s", 1, false, kCounter, "Time that checkpoints have taken",
     alwaysIn, [](Totals t) { return t.checkpointSeconds; }},
    {nullptr, nullptr, "hyc_restarts_total", "", 1, true, kCounter, "Restarts of the ranks (--max-restarts)", alwaysIn,
     [](Totals t) { return static_cast<double>(t.restarts); }},
    {nullptr, nullptr, "hyc_restart_seconds_total", "s", 1, false, kCounter,
     "Time from the last that was heard of ranks that failed to the restart", alwaysIn,
     [](Totals t) { return t.restartSeconds; }},
    {nullptr, nullptr, "hyc_instrument_seconds_total", "s", 1, false, kCounter,
     "What --log-file, --csv, --tensorboard and --prometheus have taken of the thread that tells of steps", alwaysIn,
     [](Totals t) { return t.instrumentSeconds; }},
};

using Exchange = const ExchangeRecord&;
bool alwaysOf(Exchange) { return true; }

const Metric<ExchangeRecord> kExchangeMetrics[] = {
    {nullptr, nullptr, "hyc_exchange_wait_seconds_total", "s", 1, false, kCounter,
     "Time that rank 0 has waited for exchanges, by kind, group (over) and cause, since the ranks began", alwaysOf,
     [](Exchange e) { return e.seconds; }},
    {nullptr, nullptr, "hyc_exchange_late_seconds_total", "s", 1, false, kCounter,
     "The part of it that it waited for ranks which had not come", alwaysOf, [](Exchange e) { return e.lateSeconds; }},
    {nullptr, nullptr, "hyc_exchanges_total", "", 1, true, kCounter, "How many exchanges these were", alwaysOf,
     [](Exchange e) { return static_cast<double>(e.times); }},
};

}  // namespace

MetricList<ExchangeRecord> exchangeMetrics() { return {kExchangeMetrics, std::size(kExchangeMetrics)}; }
MetricList<StepRecord> stepMetrics() { return {kStepMetrics, std::size(kStepMetrics)}; }
MetricList<RunTotals> totalMetrics() { return {kTotalMetrics, std::size(kTotalMetrics)}; }

bool isColumn(const Metric<StepRecord>& metric) {
  return &metric == kStepMetrics || std::strcmp((&metric - 1)->key, metric.key) != 0;
}

}  // namespace hycrt
