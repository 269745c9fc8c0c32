"""Distillation: KL between softened teacher and student, plus hard labels.

The teacher branch is detached and both sides are divided by a temperature."""

import torch
import torch.nn.functional as F

ORIGIN = "knowledge distillation objective"


def make_inputs():
    student = torch.randn(4, 9, requires_grad=True)
    return [student, torch.randn(4, 9), torch.randint(0, 9, (4,)), 2.0]


def fn(student, teacher, labels, temperature):
    log_p = F.log_softmax(student / temperature, dim=1)
    q = F.softmax(teacher.detach() / temperature, dim=1)
    soft = F.kl_div(log_p, q, reduction="batchmean") * temperature**2
    hard = F.nll_loss(F.log_softmax(student, dim=1), labels)
    return 0.7 * soft + 0.3 * hard, (student.argmax(1) == labels).float().mean()
