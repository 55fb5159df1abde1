// plan.html: the plan to look at. One file without requests: the mesh on its machine, the step of every stage, memory
// over the schedule, layers with their shardings and exchanges, where the time goes, and what was considered instead.
//
// What is decided here is the data, which is bounded whatever the model's size: equal layers are one row, of many
// stages some are shown, and curves have as many points as a screen. page.html, page.css and page.js draw it.
#ifndef HYC_LIB_DRIVER_PAGE_PLANPAGE_H
#define HYC_LIB_DRIVER_PAGE_PLANPAGE_H

#include <string>

namespace hyc {

struct CompiledModel;

std::string writePlanPage(const CompiledModel &model);

} // namespace hyc

#endif // HYC_LIB_DRIVER_PAGE_PLANPAGE_H
