// Loaded before everything else into the ranks of a run (LD_PRELOAD), counts what they ask of the allocator and of the
// kernel from the beginning of the second step to the end of the last: at its end each rank writes
// `steps N malloc M mmap K before B` into $HYC_ALLOCATIONS.RANK, B being what was asked for before that.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
}

namespace {
std::atomic<long> mallocs{0}, maps{0};

struct Counts {
  long mallocs, maps;
};
Counts counted() { return {mallocs.load(), maps.load()}; }
Counts second{0, 0}, last{0, 0}; // when the second step began; when the last one was over
long steps = 0;

struct AtExit {
  ~AtExit() {
    const char *rank = getenv("RANK"), *prefix = getenv("HYC_ALLOCATIONS");
    if (!rank || !prefix)
      return;
    char path[4096], text[256];
    snprintf(path, sizeof path, "%s.%s", prefix, rank);
    int length = snprintf(text, sizeof text, "steps %ld malloc %ld mmap %ld before %ld\n", steps,
                          last.mallocs - second.mallocs, last.maps - second.maps, second.mallocs);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file >= 0 && write(file, text, static_cast<size_t>(length)) == length)
      close(file);
  }
} atExit;
} // namespace

extern "C" {

/// The runtime tells where steps begin, and where the last one has ended.
void hycrt_step_begins(int64_t step) {
  if (step == 1)
    second = counted();
  last = counted();
  steps = step;
}

void *malloc(size_t size) {
  ++mallocs;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  ++mallocs;
  return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
  ++mallocs;
  return __libc_realloc(old, size);
}
void *memalign(size_t alignment, size_t size) {
  ++mallocs;
  return __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **result, size_t alignment, size_t size) {
  *result = memalign(alignment, size);
  return *result ? 0 : ENOMEM;
}
void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  ++maps;
  return reinterpret_cast<void *>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
void *mmap64(void *address, size_t size, int protection, int flags, int file, off64_t offset) {
  ++maps;
  return reinterpret_cast<void *>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
}
