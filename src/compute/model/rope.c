/* The frequencies of rotary position embedding, with the scaling of linear and Llama 3
 * variants. */
#include "compute/model/rope.h"

#include "base/math.h"

/* Returns a frequency after scaling.  Llama 3 divides low frequencies by a factor, keeps high
 * frequencies, and interpolates between the two ranges. */
static double scaled_frequency(const struct weft_rope *rope, double frequency)
{
    switch (rope->kind) {
    case WEFT_ROPE_PLAIN:
        break;
    case WEFT_ROPE_LINEAR:
        return frequency / rope->factor;
    case WEFT_ROPE_LLAMA3: {
        double wavelength = 6.283185307179586 / frequency;
        if (wavelength > rope->ctx / rope->low)
            return frequency / rope->factor;
        if (wavelength < rope->ctx / rope->high)
            break;
        double s = (rope->ctx / wavelength - rope->low) / (rope->high - rope->low);
        return (1 - s) * frequency / rope->factor + s * frequency;
    }
    }
    return frequency;
}

void wf_rope_fill(const struct weft_model *model, size_t n, float *cosines, float *sines)
{
    size_t head = model->dim / model->heads, half = head / 2;
    for (size_t i = 0; i < half; i++) {
        double f = scaled_frequency(
            &model->rope, wf_math_pow(model->rope.theta, -2.0 * (double)i / (double)head));
        for (size_t pos = 0; pos < n; pos++) {
            cosines[pos * half + i] = (float)wf_math_cos((double)pos * f);
            sines[pos * half + i] = (float)wf_math_sin((double)pos * f);
        }
    }
}
