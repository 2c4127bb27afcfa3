"""Students that learn from all training samples: from labels where there are any, elsewhere from what a teacher says."""

import torch
import torch.nn.functional as F

from gauge.data import Dataset
from gauge.masks import Complete
from gauge.training.inference import predict_split
from gauge.types import Method
from gauge_lab.methods._distilled import Distilled, Student


def distilled(student: Student, train: Dataset, teacher: Method) -> Distilled:
    """The teacher predicts every sample once, from all that was observed of it."""
    predicted = predict_split(teacher.to(train.device), train, Complete()).probabilities
    targets = torch.from_numpy(predicted).float().to(train.device)
    known = F.one_hot(train.labels.clamp_min(0), targets.shape[1]).to(targets)
    return Distilled(student, torch.where(train.labelled[:, None], known, targets))
