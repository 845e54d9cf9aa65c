"""LoRA with Hugging Face: the search chooses the learning rate and the rank of the adapters.

The ViT is tiny and its weights are random, so that nothing is downloaded: replace `build_base` by
`ViT.from_pretrained(...)`, and the data. With rank 2, 6 % of the weights train. Needs
`pip install transformers accelerate peft`. After `tuner export hugging_face_lora --to best`,
`PeftModel.from_pretrained(build_base(), "best/checkpoint")` is the best model.

    $ tuner run examples/hugging_face_lora.py
    hugging_face_lora: completed in 1m 16s
    6 trials: 4 completed, 2 stopped

    Best trial 00000, epoch 4 of 4, completed
      eval_accuracy  0.7557
      eval_loss      0.7828
    Its config
      lr             0.003783
      rank           2

    Results      results/hugging_face_lora
    Report       tuner report hugging_face_lora
    TensorBoard  tuner tensorboard hugging_face_lora
"""

import torch
from peft import LoraConfig, get_peft_model
from ray import tune
from sklearn.datasets import load_digits
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig
from transformers import ViTForImageClassification as ViT


def build_base():
    torch.manual_seed(0)  # each trial freezes the same weights
    images = {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
    layers = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return ViT(ViTConfig(**images, **layers, intermediate_size=128))


def add_adapters(base, rank):
    lora = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules="all-linear",
        modules_to_save=["classifier"],
    )
    return get_peft_model(base, lora)


class Report(TrainerCallback):
    def on_save(self, args, state, control, **_):
        checkpoint = tune.Checkpoint.from_directory(
            f"out/checkpoint-{state.global_step}"
        )
        measured = state.log_history[-1]
        metrics = {name: measured[name] for name in ("eval_loss", "eval_accuracy")}
        tune.report(metrics, checkpoint=checkpoint)


def measure_accuracy(prediction):
    return {
        "accuracy": (prediction.predictions.argmax(1) == prediction.label_ids).mean()
    }


def train(config):
    x, y = load_digits(return_X_y=True)
    images = torch.tensor(x / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    data = [
        {"pixel_values": a, "labels": int(b)} for a, b in zip(images, y, strict=True)
    ]
    arguments = TrainingArguments(
        "out",  # in the trial's own folder
        learning_rate=config["lr"],
        num_train_epochs=4,
        per_device_train_batch_size=16,
        eval_strategy="epoch",
        save_strategy="epoch",
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        add_adapters(build_base(), config["rank"]),
        arguments,
        train_dataset=data[:1400],
        eval_dataset=data[1400:],
        compute_metrics=measure_accuracy,
        callbacks=[Report()],
    )
    before = tune.get_checkpoint()  # of this trial, after a kill
    trainer.train(resume_from_checkpoint=before.path if before else None)


def experiment():
    return {
        "trainable": train,
        "search": {
            "space": {"lr": "loguniform(1e-4, 3e-2)", "rank": "choice([2, 4, 8])"}
        },
        "objective": {"metric": "eval_accuracy", "mode": "max"},
        "scheduler": {"max_t": 4, "reduction_factor": 2},
        "num_samples": 6,
    }
