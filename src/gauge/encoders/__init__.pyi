from ._own import OwnEncoder as OwnEncoder
from ._own import check_encoder as check_encoder
from ._pretrained import PretrainedGrid as PretrainedGrid
from ._pretrained import PretrainedTokens as PretrainedTokens
from ._with_whole import WithWhole as WithWhole
from .cells import Cells as Cells
from .columns import Columns as Columns
from .conv_grid import ConvGrid as ConvGrid
from .deep_grid import DeepGrid as DeepGrid
from .deep_image import DeepImage as DeepImage
from .flat_table import FlatTable as FlatTable
from .mlp import Mlp as Mlp
from .resnet_grid import ResnetGrid as ResnetGrid
from .tokens import Tokens as Tokens

__all__: list[str]
