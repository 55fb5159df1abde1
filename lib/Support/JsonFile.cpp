// Opening a named file of bounded size and parsing it, and which failure is whose to mend.
#include "hyc/Support/JsonFile.h"

#include "hyc/Support/DriverError.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace hyc;

char DriverError::ID;

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

Error hyc::readJsonFile(StringRef flag, const std::string &path, uint64_t most,
                        function_ref<Error(const JsonObjectReader &)> read) {
  Expected<std::string> text = readTextFile(flag, path, most);
  if (!text)
    return text.takeError();
  Expected<JsonValue> value = parseJson(*text, path);
  if (!value)
    return asDataError(value.takeError());
  Expected<JsonObjectReader> root = JsonObjectReader::open(path, *value);
  if (!root)
    return asDataError(root.takeError());
  if (Error error = read(*root))
    return asDataError(std::move(error));
  return Error::success();
}
