// The JSON that a run reads back: a compiled folder's manifest, a checkpoint's, and what a rank tells of its part. What
// is accepted must come back the same from its text.
#include "fuzzing.h"

#include "base/crc32c.h"
#include "checkpoint/manifest.h"
#include "hycrt/manifest.h"

#include <cstdio>

using namespace hyc::fuzzing;
using namespace hycrt;

/// A checkpoint's manifest ends with the sum of what stands before: a changed one gets its own, or nothing behind the
/// sum would ever be read.
static std::string withItsSum(std::string text) {
  static constexpr char kKey[] = ",\n\"manifest_crc32c\": \"";
  const size_t end = text.rfind(kKey);
  if (end == std::string::npos)
    return text;
  text.resize(end);
  char sum[16];
  std::snprintf(sum, sizeof sum, "%08x", crc32c(0, text.data(), text.size()));
  return text + kKey + sum + "\"\n}\n";
}

template <typename Parsed, typename Encode, typename Parse>
static void checkRoundTrip(const Result<Parsed> &parsed, Encode encode, Parse parse) {
  if (!parsed.ok()) {
    if (parsed.status().message().empty())
      found("refused without a word");
    return;
  }
  const std::string text = encode(*parsed);
  const Result<Parsed> again = parse(text, "again");
  if (!again.ok())
    found("does not read what it writes");
  if (encode(*again) != text)
    found("reads another thing than it wrote");
}

static void checkManifest(const std::string &text) {
  const Result<Manifest> manifest = parseManifest(text, "out");
  if (!manifest.ok()) {
    if (manifest.status().message().empty())
      found("refused without a word");
    return;
  }
  if (static_cast<int64_t>(manifest->ranks.size()) != rankCount(manifest->mesh))
    found("has another number of ranks than its mesh");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  checkManifest(text);
  checkRoundTrip(parseCheckpointManifest(withItsSum(text), "checkpoint.json"), encodeCheckpointManifest,
                 parseCheckpointManifest);
  checkRoundTrip(parseCheckpointParts(text, "parts"), encodeCheckpointParts, parseCheckpointParts);
  return 0;
}
