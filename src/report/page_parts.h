// Style and script of a page; neither holds anything that XML would have escaped.
#pragma once

namespace lshformer {

const char* PageStyle();
const char* PageScript();

}  // namespace lshformer
