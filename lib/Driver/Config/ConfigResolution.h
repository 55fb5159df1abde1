// ConfigResolution: from what a ds_config says to settings, and what is said of it.
#ifndef HYC_LIB_DRIVER_CONFIG_CONFIGRESOLUTION_H
#define HYC_LIB_DRIVER_CONFIG_CONFIGRESOLUTION_H

#include "Config/ConfigFile.h"

namespace hyc {

/// Offers every connected key to its setting, where flags may have been before. Keys that contradict each other, and
/// keys that ask for what hyc cannot do, are errors (65); the settings are complete nevertheless.
llvm::Error applyConfig(const ConfigFile &file, CompileOptions &options);

/// The tables of --explain-config: the keys that the file gives, then all others. `options` are final.
std::string explainConfig(const ConfigFile &file, const CompileOptions &options);

/// Why hyc cannot do what an entry asks for; empty where it can.
std::string refusalOf(const ConfigFile &file, const ConfigEntry &entry);

/// Whether the optimizer or schedule that is in force takes this parameter.
bool isInForce(const ConfigKey &key, const CompileOptions &options);

} // namespace hyc

#endif // HYC_LIB_DRIVER_CONFIG_CONFIGRESOLUTION_H
