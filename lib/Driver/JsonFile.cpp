#include "JsonFile.h"

#include "hyc/Driver/DriverError.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace hyc;

Expected<std::string> hyc::readTextFile(StringRef flag, const std::string &path, uint64_t most) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return ioError("cannot read --" + flag + " '" + path + "'", buffer.getError());
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > most)
    return makeError(ExitCode::Data, path + ": has " + Twine(text.size()) + " bytes, expected at most " + Twine(most));
  return text.str();
}

Error hyc::asDataError(Error error) {
  if (!error)
    return Error::success();
  return makeError(ExitCode::Data, toString(std::move(error)));
}
