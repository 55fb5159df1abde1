// Opening a named file of bounded size and parsing it, and which failure is whose to mend.
#include "hyc/Support/JsonFile.h"

#include "hyc/Support/InputFile.h"

using namespace llvm;
using namespace hyc;

char DriverError::ID;

Expected<std::string> hyc::readTextFile(StringRef flag, const std::string &path, uint64_t most) {
  auto buffer = openInputFile(path, most);
  if (buffer)
    return (*buffer)->getBuffer().str();
  return handleErrors(buffer.takeError(), [&](const DriverError &error) {
    return error.getCode() == ExitCode::Io
               ? makeError(ExitCode::Io, "cannot read --" + flag + " '" + path + "': " + error.getMessage())
               : makeError(error.getCode(), path + ": " + error.getMessage());
  });
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
