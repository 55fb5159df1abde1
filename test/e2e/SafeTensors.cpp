// Reads safetensors files by the letter of their format.
#include "SafeTensors.h"

#include "nlohmann/json.hpp"
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

using namespace hyc_e2e;

template <typename T> static std::vector<double> widen(const char *bytes, size_t count) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(element);
  }
  return values;
}

static std::vector<double> decode(const std::string &dtype, const char *bytes, size_t size) {
  if (dtype == "F32")
    return widen<float>(bytes, size / 4);
  if (dtype == "F64")
    return widen<double>(bytes, size / 8);
  if (dtype == "I32")
    return widen<int32_t>(bytes, size / 4);
  if (dtype == "I64")
    return widen<int64_t>(bytes, size / 8);
  if (dtype == "BOOL")
    return widen<uint8_t>(bytes, size);
  throw std::runtime_error("type " + dtype + " is not expected here");
}

std::map<std::string, HostTensor> hyc_e2e::readSafeTensors(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error(path + " can't be opened");
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  uint64_t headerBytes = 0;
  if (bytes.size() < 8)
    throw std::runtime_error(path + " is too short");
  std::memcpy(&headerBytes, bytes.data(), 8);
  if (headerBytes > bytes.size() - 8)
    throw std::runtime_error(path + " has a header that is longer than the file");
  auto header = nlohmann::json::parse(bytes.data() + 8, bytes.data() + 8 + headerBytes);
  const char *data = bytes.data() + 8 + headerBytes;
  size_t dataBytes = bytes.size() - 8 - headerBytes;
  std::map<std::string, HostTensor> tensors;
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    if (begin > end || end > dataBytes)
      throw std::runtime_error(path + ": " + name + " lies outside the file");
    tensors[name] = {entry["shape"].get<std::vector<int64_t>>(), decode(entry["dtype"], data + begin, end - begin)};
  }
  return tensors;
}

template <typename T> static void append(std::string &bytes, const std::vector<double> &values) {
  for (double value : values) {
    const T element = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char *>(&element), sizeof element);
  }
}

std::string hyc_e2e::writeSafeTensors(const std::string &path, const std::vector<TypedTensor> &tensors) {
  nlohmann::json header;
  std::string bytes;
  for (const TypedTensor &typed : tensors) {
    const size_t begin = bytes.size();
    if (typed.dtype == "F32")
      append<float>(bytes, typed.tensor.values);
    else if (typed.dtype == "I32")
      append<int32_t>(bytes, typed.tensor.values);
    else if (typed.dtype == "I64")
      append<int64_t>(bytes, typed.tensor.values);
    else
      throw std::runtime_error("type " + typed.dtype + " is not written here");
    header[typed.name] = {
        {"dtype", typed.dtype}, {"shape", typed.tensor.shape}, {"data_offsets", {begin, bytes.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(&length), sizeof length) << text << bytes;
  if (!file.flush())
    throw std::runtime_error(path + " can't be written");
  return path;
}

std::string hyc_e2e::writeImageSamples(const std::string &reference, const std::string &path) {
  const auto batches = readSafeTensors(reference);
  std::vector<TypedTensor> tensors;
  for (const auto &[name, dtype] : {std::pair("pixel_values", "F32"), std::pair("labels", "I32")}) {
    HostTensor samples = batches.at(name);
    samples.shape[1] *= samples.shape[0];
    samples.shape.erase(samples.shape.begin());
    tensors.push_back({name, dtype, std::move(samples)});
  }
  return writeSafeTensors(path, tensors);
}

double hyc_e2e::relativeDifference(const HostTensor &a, const HostTensor &b) {
  if (a.values.size() != b.values.size())
    return INFINITY;
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (std::isnan(a.values[i]) || std::isnan(b.values[i]))
      return INFINITY;
    difference = std::max(difference, std::abs(a.values[i] - b.values[i]));
    largest = std::max(largest, std::abs(b.values[i]));
  }
  return largest == 0 ? difference : difference / largest;
}
