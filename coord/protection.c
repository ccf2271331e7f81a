#include "coord/protection.h"

const struct protection_scheme protection_schemes[PROTECTION_SCHEMES] = {
    {"SINGLE", 1, 0}, {"PARTNER", 1, 1}, {"XOR:4", 3, 1}, {"XOR:8", 7, 1}, {"RS:4+2", 4, 2}, {"RS:8+3", 8, 3},
};

uint32_t protection_nodes(const struct protection_scheme *scheme)
{
    return scheme->data + scheme->parity;
}

uint32_t protection_losses(const struct protection_scheme *scheme)
{
    return scheme->parity;
}

struct protection_cost protection_cost(const struct protection_scheme *scheme,
                                       const struct protection_load *load)
{
    double parity = scheme->parity, share = parity / scheme->data;
    struct protection_cost cost = {.line_bytes = parity * load->sent_bytes,
                                   .first_bytes = parity * load->image_bytes};
    cost.memory_bytes = load->image_bytes + load->staged_bytes + share * load->image_bytes + cost.line_bytes;
    cost.line_ms = cost.line_bytes * load->send_s * 1e3;
    cost.first_ms = cost.first_bytes * load->send_s * 1e3;
    return cost;
}
