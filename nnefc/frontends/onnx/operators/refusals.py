"""Operators that nnefc does not support, with the reasons."""

from __future__ import annotations

from nnefc.frontends.onnx.registry import refuse

BLOCKED = "com.microsoft.nchwc"
CLASSICAL = "ai.onnx.ml"
TRAINING = ("ai.onnx.preview.training", "ai.onnx.training")

refuse(
    "nnefc computes with numbers and booleans; process strings before the model runs",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "RegexFullMatch",
)
refuse(
    "nnefc does not decode images; give the decoded pixels as an input",
    "ImageDecoder",
)
refuse(
    "ONNX has removed this experimental operator",
    "ATen",
    "Affine",
    "Crop",
    "DynamicSlice",
    "GRUUnit",
    "GivenTensorFill",
    "ImageScaler",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
)
refuse(
    "dictionaries and strings are not supported; map them to numbers before the model runs",
    "CastMap",
    "CategoryMapper",
    "DictVectorizer",
    "LabelEncoder",
    "ZipMap",
    domain=CLASSICAL,
)
refuse(
    "nnefc compiles neural networks; operators of classical machine learning are not supported",
    "ArrayFeatureExtractor",
    "Binarizer",
    "FeatureVectorizer",
    "Imputer",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "OneHotEncoder",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    domain=CLASSICAL,
)
refuse(
    "onnxruntime writes it for one kind of processor; let it optimize up to ORT_ENABLE_EXTENDED",
    "AveragePool",
    "Conv",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
    "ReorderInput",
    "ReorderOutput",
    "Upsample",
    domain=BLOCKED,
)
for domain in TRAINING:
    refuse(
        "nnefc runs models, it does not train them; export the model for inference",
        "Adagrad",
        "Adam",
        "Gradient",
        "Momentum",
        domain=domain,
    )
