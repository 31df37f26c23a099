#include "text/text_template.h"

namespace lshformer {

TextTemplate TextTemplate::Bert(int32_t cls, int32_t sep) {
  return {.one = {.before = {{cls, 0}}, .between = {}, .after = {{sep, 0}}},
          .two = {.before = {{cls, 0}}, .between = {{sep, 0}}, .after = {{sep, 1}}}};
}

TextTemplate TextTemplate::Roberta(int32_t cls, int32_t sep) {
  return {.one = {.before = {{cls, 0}}, .between = {}, .after = {{sep, 0}}, .second_type = 0},
          .two = {.before = {{cls, 0}}, .between = {{sep, 0}, {sep, 0}}, .after = {{sep, 0}}, .second_type = 0}};
}

}  // namespace lshformer
